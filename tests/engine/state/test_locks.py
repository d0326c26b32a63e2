"""Locks of the state: those of dead owners are removed, those of live owners and other hosts never."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError
from tests.sandbox import wait_for


def lock(**changes: Any) -> Path:
    body = {
        "pid": os.getpid(),
        "username": "alice",
        "hostname": socket.gethostname(),
        "timestamp": datetime.now(UTC).isoformat(),
        **changes,
    }
    return write_lock(json.dumps(body))


def write_lock(text: str) -> Path:
    folder = file_store.root() / "locks" / "organization" / "symphony" / "rl"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{len(list(folder.iterdir()))}.json"
    file.write_text(text)
    return file


def dead_pid() -> int:
    """Return the pid of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[int]:
    """Return the pid of a process with the engine's name."""
    program = tmp_path / "pulumi"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        wait_for(lambda: psutil.Process(process.pid).name() == "pulumi", 5, "it runs")
        yield process.pid
        process.kill()


def test_the_lock_of_a_live_owner_is_an_error_and_a_dead_one_before_it_is_removed(owner: int) -> None:
    dead, live = lock(pid=dead_pid()), lock(pid=owner)
    clock = time.strftime("%H:%M")
    with pytest.raises(SymphonyError) as error:
        locks.recover("symphony", "rl")
    assert error.value.what == (f"rl is being changed by alice, pid {owner} on this machine since {clock}")
    assert (dead.exists(), live.exists()) == (False, True)


def test_locks_of_dead_owners_are_removed(owner: int) -> None:
    """The pid may be that of a zombie, of another program, or of a later engine."""
    with subprocess.Popen(["true"]) as zombie:
        wait_for(lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_ZOMBIE, 5, "it has ended")
        files = [
            lock(pid=dead_pid()),
            lock(pid=zombie.pid),
            lock(pid=os.getpid()),
            lock(pid=owner, timestamp="2020-01-01T00:00:00.123456789+01:00"),
        ]
        notes = locks.recover("symphony", "rl")
    assert len(notes) == len(files)
    assert "removed the lock that alice, pid" in notes[0]
    assert not any(file.exists() for file in files)
    assert locks.recover("symphony", "rl") == []


def test_the_lock_of_another_host_is_never_removed() -> None:
    file = lock(hostname="elsewhere", pid=dead_pid(), timestamp="2020-01-01T00:00:00Z")
    cancel = r"on elsewhere since 2020-01-01 .*pulumi cancel organization/symphony/rl`"
    with pytest.raises(SymphonyError, match=cancel):
        locks.recover("symphony", "rl")
    assert file.exists()


@pytest.mark.parametrize("text", ["", '{"pid":1,"username":"a"}'])
def test_a_half_written_lock_is_removed(text: str) -> None:
    file = write_lock(text)
    [note] = locks.recover("symphony", "rl")
    assert "a damaged lock" in note
    assert not file.exists()


@pytest.mark.parametrize("age", [0.0, 60.0, -60.0])
def test_temporary_lock_files_are_removed_at_any_age(age: float) -> None:
    """A full disk leaves an empty one, which the engine mistakes for a lock; -60: the clock was set back."""
    draft = write_lock("").rename(file_store.root() / "locks/organization/symphony/rl/1.json.18ea.tmp")
    then = time.time() - age
    os.utime(draft, (then, then))
    assert locks.recover("symphony", "rl") == []
    assert not draft.exists()
