"""Starts and ends processes: all that descends from one bears its mark in the environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from symphony.errors import SymphonyError
from symphony_subprocess import folders

MARK = "SYMPHONY_ID"
# Those that restart it when they change.
SETTINGS = ("argv", "cwd", "env", "services")
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_INHERITED = ("HOME", "LANG", "PATH", "TMPDIR")
_PATIENCE = 10.0


def is_good(owner: str, path: str) -> bool:
    """Whether it runs, or has come to a good end."""
    status = folders.status(owner, path)
    return status is not None and (status.code == 0 if status.ended else folders.is_supervised(owner, path))


def ensure(inputs: Mapping[str, Any], attempt: int) -> int:
    """Start it, unless a run that was killed has; the number of the start."""
    owner, path = str(inputs["owner"]), str(inputs["path"])
    known = folders.started_with(owner, path)
    if known is not None and known["inputs"] == _settings(inputs) and is_good(owner, path):
        return int(known["attempt"])
    stop(owner, path, float(inputs["grace"]))
    _start(inputs, attempt)
    return attempt


def environment(inputs: Mapping[str, Any]) -> dict[str, str]:
    """What a process has of who starts it, of all services, and of its own."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    services = folders.services(str(inputs["owner"])) or {}
    return {**inherited, **services, **inputs["services"], **inputs["env"]}


def stop(owner: str, path: str | None, grace: float) -> None:
    """End a process and all that descends from it, or all of an experiment."""
    living = _marked(owner, path)
    _signal(living, signal.SIGTERM)
    until = time.monotonic() + grace
    while time.monotonic() < until and (living := _marked(owner, path)):
        time.sleep(0.05)
    while living := _marked(owner, path):
        _signal(living, signal.SIGKILL)
        time.sleep(0.05)


def remove(owner: str, path: str | None, grace: float) -> None:
    """End it, and remove its files."""
    stop(owner, path, grace)
    shutil.rmtree(
        folders.experiment(owner) if path is None else folders.process(owner, path), ignore_errors=True
    )


def _start(inputs: Mapping[str, Any], attempt: int) -> None:
    owner, path = str(inputs["owner"]), str(inputs["path"])
    folder = folders.process(owner, path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / folders.STATUS).unlink(missing_ok=True)
    about = {"argv": inputs["argv"], "cwd": inputs["cwd"], "env": environment(inputs)}
    (folder / folders.START).write_text(
        json.dumps({"attempt": attempt, "inputs": _settings(inputs), **about})
    )
    subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SUPERVISOR), str(folder)],
        env={MARK: f"{owner}/{path}/{attempt}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + _PATIENCE
    while folders.status(owner, path) is None:
        if time.monotonic() > until:
            raise SymphonyError(f"the supervisor of {path} does not start")
        time.sleep(0.01)


def _settings(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inputs[name] for name in SETTINGS}


def _marked(owner: str, path: str | None) -> list[psutil.Process]:
    mark = f"{owner}/" if path is None else f"{owner}/{path}/"
    result: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK, "").startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
                result.append(process)
    return result


def _signal(living: list[psutil.Process], number: signal.Signals) -> None:
    for process in living:
        with suppress(psutil.Error):
            process.send_signal(number)
