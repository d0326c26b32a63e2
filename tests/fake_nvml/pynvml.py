"""nvidia-ml-py as far as symphony uses it: its GPUs are in the JSON file that $FAKE_NVML names.

{"gpus": [{"uuid": "GPU-0", "use": 97, "programs": {"4711": 1073741824}}]}
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """The error of the real library."""


def _gpus() -> list[dict[str, Any]]:
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text())["gpus"]


def nvmlInit() -> None:
    if "FAKE_NVML" not in os.environ:
        raise NVMLError("NVML Shared Library Not Found")


def nvmlDeviceGetCount() -> int:
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetUUID(handle: int) -> str:
    return _gpus()[handle]["uuid"]


def nvmlDeviceGetName(handle: int) -> str:
    return "Fake 3000"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(used=sum(_gpus()[handle].get("programs", {}).values()), total=24 << 30)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    if "use" not in _gpus()[handle]:
        raise NVMLError("Not Supported")
    return SimpleNamespace(gpu=_gpus()[handle]["use"])


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    programs = _gpus()[handle].get("programs", {})
    return [SimpleNamespace(pid=int(pid), usedGpuMemory=used) for pid, used in programs.items()]
