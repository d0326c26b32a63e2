"""Allocates this machine's GPUs to processes: a process waits until enough are free, and then starts.

    python -P -m symphony_tmux.gpus COUNT WHO FOLDER SHELL FILE

It executes `SHELL FILE` once it holds COUNT GPUs; a file in FOLDER, the folder of the process, shows what it
waits for. Every process that holds GPUs or waits for them has a claim, a file with its pid in a folder of the
machine. A claim counts while its process lives and belongs to the user who wrote the file, so that GPUs are
free again however a process ends.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import stat
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import psutil

from symphony import files
from symphony.errors import SymphonyError
from symphony_tmux.processes import process_table

# In the environment of a process: the number of GPUs that it needs.
VARIABLE = "SYMPHONY_GPUS"
# For the launch file: the pid of the process that holds the GPUs, and their UUIDs.
HOLDER, TAKEN = "SYMPHONY_GPUS_HOLDER", "SYMPHONY_GPUS_TAKEN"
NOTE = "waiting"
FOLDER_VARIABLE = "SYMPHONY_GPU_FOLDER"
_LOCK = "lock"
_LOCK_SECONDS, _POLL_SECONDS, _LIMIT = 5.0, 1.0, 1 << 16


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as its driver reports it.

    used, total: bytes of memory. utilization: in percent; None if it is not reported.
    programs: pid -> the bytes of memory that it uses.
    """

    index: int
    uuid: str
    name: str
    used: int
    total: int
    utilization: int | None
    programs: dict[int, int]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of a process.

    pid, start: the process. who: its name, for messages. asked: the time of the request.
    gpus: the UUIDs of the GPUs that it holds; empty while it waits.
    """

    pid: int
    start: int
    who: str
    count: int
    asked: float
    gpus: tuple[str, ...] = ()


def main() -> None:
    """Wait until this process holds the GPUs, then execute the program."""
    count, who, folder, *command = sys.argv[1:]
    note, last_reason = Path(folder, NOTE), ""
    if int(count) > len(devices()):
        files.remove(note)
        here = len(devices())
        raise SystemExit(f"symphony: {who} needs {_amount(int(count))}, but this machine has {here}")
    asked = time.time()
    while not isinstance(result := claim(int(count), who, asked), tuple):
        if result != last_reason:
            files.replace(note, f"{result}\n".encode())
            sys.stderr.write(f"[symphony: waiting for {result}]\n")
            last_reason = result
        time.sleep(_POLL_SECONDS)
    files.remove(note)
    os.environ.update({HOLDER: str(os.getpid()), TAKEN: ",".join(result)})
    os.execv(command[0], command)


def claim(count: int, who: str, asked: float) -> tuple[str, ...] | str:
    """Return the UUIDs of the GPUs that this process now holds, or what it waits for."""
    pid = os.getpid()
    own = Claim(pid=pid, start=process_table.start_of(pid), who=who, count=count, asked=asked)
    amount = _amount(count)
    try:
        with _locked():
            others = [other for other in claims() if other.pid != pid]
            earlier = [
                other for other in others if not other.gpus and (other.asked, other.pid) < (asked, pid)
            ]
            free, reasons = _free(others)
            is_granted = len(free) >= count and not earlier
            own = msgspec.structs.replace(own, gpus=tuple(free[:count]) if is_granted else ())
            files.replace(folder() / f"{os.getuid()}-{pid}", msgspec.json.encode(own), mode=0o644)
    except (OSError, SymphonyError) as error:
        return f"{amount}: {error}"
    queue = [f"{other.who} asked before" for other in earlier[:1]]
    return own.gpus or f"{amount}: {'; '.join([*reasons, *queue])}"


def _amount(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


def _free(others: list[Claim]) -> tuple[list[str], list[str]]:
    """Return the UUIDs of free GPUs, and the reasons why GPUs are not free."""
    holder = {uuid: other.who for other in others for uuid in other.gpus}
    free, indexes_of, busy = list[str](), dict[str, list[str]](), list[str]()
    for gpu in devices():
        if gpu.uuid in holder:
            indexes_of.setdefault(holder[gpu.uuid], []).append(str(gpu.index))
        elif gpu.programs:
            busy.append(f"GPU {gpu.index} is busy ({', '.join(map(program, gpu.programs))})")
        else:
            free.append(gpu.uuid)
    return free, [*(f"GPU {','.join(numbers)} held by {who}" for who, numbers in indexes_of.items()), *busy]


def program(pid: int) -> str:
    """Describe a program: `python 4711 of ben`."""
    try:
        return f"{process_table.command_name(pid)} {pid} of {psutil.Process(pid).username()}"
    except psutil.Error:
        return f"process {pid}"


def devices() -> list[Gpu]:
    """Return the GPUs; empty without a driver or nvidia-ml-py."""
    nvml = _nvml()
    if nvml is None:
        return []
    return [_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]


def _device(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    utilization = None
    # Some GPUs, such as MIG instances, do not report it.
    with suppress(nvml.NVMLError):
        utilization = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    programs = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return Gpu(
        index=index,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=nvml.nvmlDeviceGetName(handle),
        used=int(memory.used),
        total=int(memory.total),
        utilization=utilization,
        programs={int(running.pid): int(running.usedGpuMemory or 0) for running in programs},
    )


@lru_cache(maxsize=1)
def _nvml() -> Any:
    """Return the initialized module of nvidia-ml-py; None if it finds no driver."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        module.nvmlInit()
    except module.NVMLError:
        return None
    return module


def claims() -> list[Claim]:
    """Return the claims of living processes in order; remove this user's claims of dead processes."""
    return sorted(_claims(), key=lambda claim: (claim.asked, claim.pid))


def _claims() -> Iterator[Claim]:
    for file in files.matching(folder(), "*-*"):
        with suppress(OSError, msgspec.DecodeError, psutil.Error):
            stored = msgspec.json.decode(files.read(file, limit=_LIMIT), type=Claim)
            owner = file.lstat().st_uid
            if process_table.start_of(stored.pid) != stored.start:
                if owner == os.getuid():
                    files.remove(file)
            elif file.name == f"{owner}-{stored.pid}" and psutil.Process(stored.pid).uids().real == owner:
                yield stored


def folder() -> Path:
    """Return the folder of the claims, which all users of the machine share.

    Raises:
        SymphonyError: It is not a folder with the sticky bit, so that users could remove the files of others.
    """
    path = Path(os.environ.get(FOLDER_VARIABLE) or "/tmp/symphony-gpus")
    with suppress(FileExistsError):
        # With the sticky bit from the first moment: another process may look before chmod.
        path.mkdir(0o1777)
        path.chmod(0o1777)
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode) or not mode & stat.S_ISVTX:
        raise SymphonyError(
            f"{path} is not a folder, or is a folder without the sticky bit",
            remedy=f"Remove it if it is not a folder, else run `chmod 1777 {path}`",
        )
    return path


@contextmanager
def _locked() -> Generator[None]:
    """Lock the folder of the claims; the lock file may belong to another user."""
    path, deadline = folder() / _LOCK, time.monotonic() + _LOCK_SECONDS
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
        path.chmod(0o644)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SymphonyError(
                        "another program has locked the list of claimed GPUs",
                        where=str(path),
                        remedy=f"`fuser {path}` shows the program; symphony tries again by itself",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
