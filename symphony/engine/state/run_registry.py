"""Who the process of an engine run is, as it was when it began, to tell live owners of locks from dead ones.

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
from symphony_tmux.processes import process_table


@contextmanager
def noted(name: StackName, pid: int) -> Generator[None]:
    """While it lasts, is_same() knows this process as one that changes the stack, for the one that we are."""
    file = _file(name, pid)
    with suppress(OSError):
        paths.private_folder(file.parent)
        file.write_text(json.dumps([*_now(pid), os.getpid(), process_table.start_of(os.getpid())]))
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def is_same(name: StackName, pid: int) -> bool | None:
    """Whether the process of this number is the one that was noted; None when none was."""
    noted_then = _noted_then(name, pid)
    return None if noted_then is None else noted_then[:2] == _now(pid)


def is_ending(name: StackName, pid: int) -> bool:
    """Whether the command line of a run is gone, which its engine outlives by seconds."""
    noted_then = _noted_then(name, pid)
    if noted_then is None or len(noted_then) < 4:
        return False
    return process_table.start_of(int(noted_then[2])) != noted_then[3]


def command_of(name: StackName, pid: int) -> int | None:
    """Return the process of the command line or script whose engine is a process, while both are alive."""
    noted_then = _noted_then(name, pid)
    if noted_then is None or len(noted_then) < 4 or noted_then[:2] != _now(pid):
        return None
    return int(noted_then[2]) if process_table.start_of(int(noted_then[2])) == noted_then[3] else None


def _noted_then(name: StackName, pid: int) -> list[Any] | None:
    try:
        result: object = json.loads(_file(name, pid).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return cast("list[Any]", result) if isinstance(result, list) else None


def sweep(name: StackName) -> None:
    """Take away what killed runs of a stack noted."""
    folder = _file(name, 0).parent
    prefix = f"{os.uname().nodename}-"
    with suppress(OSError):
        for file in folder.glob(f"{prefix}*"):
            number = file.name.removeprefix(prefix)
            if number.isdigit() and not watchdog.is_running(int(number)):
                file.unlink(missing_ok=True)


def _now(pid: int) -> list[Any]:
    return [process_table.start_of(pid), process_table.boot_id()]


def _file(name: StackName, pid: int) -> Path:
    folder = paths.home() / "runs" / paths.store_id() / name.project / name.stack
    return folder / f"{os.uname().nodename}-{pid}"
