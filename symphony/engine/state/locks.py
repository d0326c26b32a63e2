"""Reads the locks of a file store and removes those of dead owners.

A lock holds pid, user, host and time. Each has a file of its own, so removing one never removes another.
"""

import json
import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from symphony import files
from symphony.engine.run import watchdog
from symphony.engine.state import file_store
from symphony.errors import SymphonyError

# Seconds in which an engine renames the draft of a lock.
_DRAFT_AGE = 2.0
# The variable with the pid of the process that started an engine.
COMMAND = "SYMPHONY_COMMAND"
_ENGINE = "pulumi"
_CLOCK_SKEW = 60.0
# Longer than an engine lives after its command line was killed.
_PATIENCE = watchdog.GRACE + 2


class StackLocked(SymphonyError):
    """The error for a stack whose lock a live or remote owner holds."""


class Lock(msgspec.Struct, frozen=True):
    """A lock of a stack; pid is 0 if the file names no owner."""

    file: Path
    pid: int
    user: str
    host: str
    since: float

    @property
    def is_here(self) -> bool:
        return self.host == os.uname().nodename

    def owner(self) -> str:
        machine = "this machine" if self.is_here else self.host
        day = "%H:%M" if time.time() - self.since < 20 * 3600 else "%Y-%m-%d %H:%M"
        since = time.strftime(day, time.localtime(self.since))
        return f"{self.user}, pid {self.pid} on {machine} since {since}"


def recover(project: str, stack: str) -> list[str]:
    """Remove the locks of dead owners; return a line about each removal.

    If the command of a run was killed, wait for the end of its engine.

    Raises:
        SymphonyError: A live owner, or one on another machine, has a lock.
    """
    if not file_store.is_files():
        return []
    notes: list[str] = []
    _sweep_drafts(_folder(project, stack))
    deadline = time.monotonic() + _PATIENCE
    for lock in read(project, stack):
        while not is_dead(lock) and _is_ending(lock) and time.monotonic() < deadline:
            time.sleep(0.05)
        if is_dead(lock):
            lock.file.unlink(missing_ok=True)
            left = f"the lock that {lock.owner()} left on {stack}: that process has ended"
            notes.append(f"removed {left if lock.pid else f'a damaged lock of {stack}'}")
        else:
            raise locked_error(file_store.StackName(project, stack), lock)
    return notes


def locked_error(name: file_store.StackName, lock: Lock) -> StackLocked:
    """Return the error of a stack that another run is changing."""
    wait = "Wait until that run has ended"
    if not lock.is_here:
        cancel = f'`eval "$(symphony env)"; pulumi cancel {name}`'
        wait += f", or if {lock.host} is gone for good: {cancel}"
    return StackLocked(f"{name.stack} is being changed by {lock.owner()}", remedy=wait)


def read(project: str, stack: str) -> list[Lock]:
    """Return the locks of a stack in a file store."""
    if not file_store.is_files():
        return []
    try:
        files = sorted(_folder(project, stack).glob("*.json"))
    except OSError:
        return []
    return [lock for file in files if (lock := _read(file)) is not None]


def _folder(project: str, stack: str) -> Path:
    return file_store.root() / "locks" / "organization" / project / stack


def _sweep_drafts(folder: Path) -> None:
    """Remove drafts of locks that a full disk or a kill left: the engine takes them for locks.

    Another engine may be about to rename a young one, so wait until it is old.
    """
    deadline = time.monotonic() + _DRAFT_AGE
    with suppress(OSError):
        for draft in folder.glob("*.tmp"):
            with suppress(FileNotFoundError):
                while time.time() - draft.stat().st_mtime <= _DRAFT_AGE and time.monotonic() < deadline:
                    time.sleep(0.05)
                draft.unlink()


def stacks_in_use() -> set[file_store.StackName]:
    """Return the stacks that a run is changing."""
    if not file_store.is_files():
        return set()
    folders = (file_store.root() / "locks" / "organization").glob("*/*")
    names = [file_store.StackName(folder.parent.name, folder.name) for folder in folders]
    return {name for name in names if is_held(name)}


def is_held(name: file_store.StackName) -> bool:
    """Return whether a run is changing a stack."""
    return any(not is_dead(lock) for lock in read(name.project, name.stack))


def is_dead(lock: Lock) -> bool:
    """Return whether the owner is certainly gone: a process of this machine that has ended."""
    if not lock.pid:
        return True  # The engine renames whole files into place: a crash of the machine left a partial one.
    if not lock.is_here:
        return False
    import psutil  # The import takes 20 ms, only for a stack with a lock.

    try:
        owner = psutil.Process(lock.pid)
        # The pid may have been reused; a corrected clock moves start times only a little.
        is_later = owner.create_time() > lock.since + _CLOCK_SKEW
        return is_later or owner.name() != _ENGINE or owner.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False  # A process of another user may not be inspected.


def command_of(lock: Lock) -> int | None:
    """Return the process of the command or script whose engine owns a lock, while both are alive."""
    command, parent = (0, 0) if is_dead(lock) else _starters(lock)
    return command if command and command == parent else None


def _is_ending(lock: Lock) -> bool:
    """Return whether the command that started the owner has ended; its engine outlives it by seconds."""
    command, parent = _starters(lock)
    return command != parent


def _starters(lock: Lock) -> tuple[int, int]:
    """Return the pid of the command that started the owner, and of its parent now; 0 if unknown."""
    import psutil

    try:
        owner = psutil.Process(lock.pid)
        command = int(owner.environ().get(COMMAND) or 0) if lock.is_here else 0
        return command, owner.ppid() if command else 0
    except psutil.Error:
        return 0, 0


def _read(file: Path) -> Lock | None:
    try:
        text = files.read(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SymphonyError(
            f"a lock cannot be read: {error.strerror}",
            where=str(file),
            remedy="Take ownership of that file (chown)",
        ) from error
    try:
        lock: dict[str, Any] = json.loads(text)
        since = datetime.fromisoformat(lock["timestamp"]).timestamp()
        return Lock(file, int(lock["pid"]), str(lock["username"]), str(lock["hostname"]), since)
    except (ValueError, KeyError, TypeError):
        return Lock(file, 0, "", "", 0.0)
