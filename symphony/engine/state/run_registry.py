"""Who the process of an engine run is, as it was when it began; run.py notes it, locks.py judges by it.

A number is used again and clocks are put forward: only number, start and boot together are one process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from symphony import paths
from symphony.engine.run import watchdog
from symphony.engine.state.file_store import StackName

_PROC = Path("/proc")


@contextmanager
def noted(name: StackName, pid: int) -> Generator[None]:
    """While it lasts, is_same() knows this process as one that changes the stack, for the one that we are."""
    file = _file(name, pid)
    with suppress(OSError):
        paths.private_folder(file.parent)
        file.write_text(json.dumps([*_now(pid), os.getpid(), _start(os.getpid())]))
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def is_same(name: StackName, pid: int) -> bool | None:
    """Whether the process of this number is the one that was noted; None when none was."""
    noted_then = _noted_then(name, pid)
    return None if noted_then is None else watchdog.is_running(pid) and noted_then[:2] == _now(pid)


def is_ending(name: StackName, pid: int) -> bool:
    """Whether the command line of a run is gone, which its engine outlives by seconds."""
    noted_then = _noted_then(name, pid)
    if noted_then is None or len(noted_then) < 4:
        return False
    caller = int(noted_then[2])
    return not watchdog.is_running(caller) or _start(caller) != noted_then[3]


def _noted_then(name: StackName, pid: int) -> list[Any] | None:
    try:
        found: object = json.loads(_file(name, pid).read_bytes())
    except (OSError, ValueError):
        return None
    return cast("list[Any]", found) if isinstance(found, list) else None


def sweep(name: StackName) -> None:
    """Take away what killed runs of a stack noted."""
    folder = _file(name, 0).parent
    prefix = f"{os.uname().nodename}-"
    with suppress(OSError):
        for file in folder.glob(f"{prefix}*"):
            number = file.name.removeprefix(prefix)
            if number.isdigit() and not watchdog.is_running(int(number)):
                file.unlink(missing_ok=True)


def _now(pid: int) -> list[str]:
    return [_start(pid), _boot()]


def _start(pid: int) -> str:
    """In clock ticks since the boot; without /proc by the clock, as the kernel noted it then."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "" if _PROC.exists() else _started(pid)


def _started(pid: int) -> str:
    import psutil  # 20 ms, for macOS only

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""  # The start by the clock tells boots apart, too.


def _file(name: StackName, pid: int) -> Path:
    folder = paths.home() / "runs" / paths.store_id() / name.project / name.stack
    return folder / f"{os.uname().nodename}-{pid}"
