"""Allocates this machine's GPUs to processes: a process waits until enough are free, and then starts.

    python -P -m symphony_tmux.gpus COUNT WHO FOLDER SHELL FILE

It becomes `SHELL FILE` once it holds COUNT GPUs, and says in FOLDER what it waits for. Every holder and every
process that waits has a file in one folder of the machine, with its pid: the file counts while that process
lives and belongs to the user who wrote the file. So what is held is given back whatever ends a process.
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
# Set for the launch file once they are held: the pid of the holder, and the UUIDs.
HOLDER, TAKEN = "SYMPHONY_GPUS_HOLDER", "SYMPHONY_GPUS_TAKEN"
NOTE = "waiting"
FOLDER = "SYMPHONY_GPU_FOLDER"
_LOCK = "lock"
_PATIENCE, _PERIOD, _LIMIT = 5.0, 1.0, 1 << 16


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its driver sees it; programs: pid -> the bytes of its memory that it uses."""

    index: int
    uuid: str
    name: str
    used: int
    total: int
    busy: int
    programs: dict[int, int]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The request of one process; gpus: those it holds, none while it waits; start: that of its pid."""

    pid: int
    start: int
    who: str
    count: int
    asked: float
    gpus: tuple[str, ...] = ()


def main() -> None:
    """Wait until the GPUs are held, then become the program."""
    count, who, folder, *command = sys.argv[1:]
    note, told = Path(folder, NOTE), ""
    files.remove(note)
    if int(count) > len(devices()):
        raise SystemExit(f"symphony: {who} needs {count} GPUs, but this machine has {len(devices())}")
    asked = time.time()
    while not isinstance(answer := claim(int(count), who, asked), tuple):
        if answer != told:
            files.replace(note, f"{answer}\n".encode())
            sys.stderr.write(f"[symphony: waiting for {answer}]\n")
            told = answer
        time.sleep(_PERIOD)
    files.remove(note)
    os.environ.update({HOLDER: str(os.getpid()), TAKEN: ",".join(answer)})
    os.execv(command[0], command)


def claim(count: int, who: str, asked: float) -> tuple[str, ...] | str:
    """Return the UUIDs of the GPUs that this process now holds, or what it waits for."""
    pid = os.getpid()
    own = Claim(pid=pid, start=process_table.start_of(pid), who=who, count=count, asked=asked)
    number = f"{count} GPU{'s' if count > 1 else ''}"
    try:
        with _locked():
            others = [other for other in claims() if other.pid != pid]
            first = [other for other in others if not other.gpus and (other.asked, other.pid) < (asked, pid)]
            free, taken = _free(others)
            gets = len(free) >= count and not first
            own = msgspec.structs.replace(own, gpus=tuple(free[:count]) if gets else ())
            files.replace(folder() / f"{os.getuid()}-{pid}", msgspec.json.encode(own), mode=0o644)
    except (OSError, SymphonyError) as error:
        return f"{number}: {error}"
    queue = [f"{other.who} asked before" for other in first[:1]]
    return own.gpus or f"{number}: {'; '.join([*taken, *queue])}"


def _free(others: list[Claim]) -> tuple[list[str], list[str]]:
    """Return the UUIDs of free GPUs, and why the others are not free."""
    holder = {uuid: other.who for other in others for uuid in other.gpus}
    free, held, busy = list[str](), dict[str, list[str]](), list[str]()
    for gpu in devices():
        if gpu.uuid in holder:
            held.setdefault(holder[gpu.uuid], []).append(str(gpu.index))
        elif gpu.programs:
            busy.append(f"{gpu.index} is busy ({', '.join(map(program, gpu.programs))})")
        else:
            free.append(gpu.uuid)
    return free, [*(f"{','.join(numbers)} held by {who}" for who, numbers in held.items()), *busy]


def program(pid: int) -> str:
    """Return a program on a GPU in words: `python 4711 of ben`."""
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
    busy = 0
    # Some GPUs, such as parts of one, do not say.
    with suppress(nvml.NVMLError):
        busy = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    programs = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return Gpu(
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        used=int(memory.used),
        total=int(memory.total),
        busy=busy,
        programs={int(running.pid): int(running.usedGpuMemory or 0) for running in programs},
    )


def _text(raw: bytes | str) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw


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
            known = msgspec.json.decode(files.read(file, limit=_LIMIT), type=Claim)
            owner = file.lstat().st_uid
            if process_table.start_of(known.pid) != known.start:
                if owner == os.getuid():
                    files.remove(file)
            elif file.name == f"{owner}-{known.pid}" and psutil.Process(known.pid).uids().real == owner:
                yield known


def folder() -> Path:
    """Return the folder of the claims, which all users of the machine share.

    Raises:
        SymphonyError: It is none, or every user may remove the files of others there.
    """
    place = Path(os.environ.get(FOLDER) or "/tmp/symphony-gpus")
    with suppress(FileExistsError):
        place.mkdir()
        place.chmod(0o1777)
    mode = place.lstat().st_mode
    if not stat.S_ISDIR(mode) or not mode & stat.S_ISVTX:
        raise SymphonyError(f"{place} is not a folder with the sticky bit", remedy=f"chmod 1777 {place}")
    return place


@contextmanager
def _locked() -> Generator[None]:
    """Hold the lock of the claims' folder, whose lock file may belong to another user."""
    place, ends = folder() / _LOCK, time.monotonic() + _PATIENCE
    with suppress(FileExistsError):
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
        place.chmod(0o644)
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise SymphonyError(f"another program holds {place}") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
