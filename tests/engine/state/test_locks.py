"""Locks: dead owners' are taken away, live and distant ones never."""

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

from symphony.engine.state import file_store, locks, run_registry
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony_tmux.processes import process_table
from tests.sandbox import wait_for


def lock(**changes: Any) -> Path:
    body = {
        "pid": os.getpid(),
        "username": "alice",
        "hostname": socket.gethostname(),
        "timestamp": datetime.now(UTC).isoformat(),
        **changes,
    }
    return written(json.dumps(body))


def written(text: str) -> Path:
    folder = file_store.root() / "locks" / "organization" / "symphony" / "rl"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{len(list(folder.iterdir()))}.json"
    file.write_text(text)
    return file


def gone() -> int:
    """The number of a process that was and is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_none() -> None:
    assert locks.recover("symphony", "rl") == []


@pytest.fixture
def noted() -> Iterator[None]:
    """This process is known as one that changes the stack."""
    with run_registry.noted(StackName("symphony", "rl"), os.getpid()):
        yield


@pytest.mark.usefixtures("noted")
def test_live_owner() -> None:
    file = lock()
    clock = time.strftime("%H:%M")
    with pytest.raises(SymphonyError) as error:
        locks.recover("symphony", "rl")
    assert str(error.value) == (
        f"rl is being changed by alice, pid {os.getpid()} on this machine since {clock}. Wait for it to end."
    )
    assert file.exists()


def test_dead_owner() -> None:
    files = [lock(pid=gone()), lock(pid=gone())]
    notes = locks.recover("symphony", "rl")
    assert len(notes) == 2
    assert "removed the lock that alice, pid" in notes[0]
    assert not any(file.exists() for file in files)


def test_zombie_owner_is_dead() -> None:
    process = subprocess.Popen(["true"])
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    lock(pid=process.pid)
    assert len(locks.recover("symphony", "rl")) == 1
    process.wait()


def test_a_number_that_no_engine_has_now() -> None:
    """Nothing was noted of its owner, a plain `pulumi`."""
    lock(timestamp="2020-01-01T00:00:00.123456789+01:00")
    assert len(locks.recover("symphony", "rl")) == 1


def test_distant_owner_is_never_judged() -> None:
    file = lock(hostname="elsewhere", pid=gone(), timestamp="2020-01-01T00:00:00Z")
    with pytest.raises(SymphonyError, match=r"on elsewhere since 2020-01-01 .*`pulumi cancel rl`"):
        locks.recover("symphony", "rl")
    assert file.exists()


@pytest.mark.usefixtures("noted")
def test_a_live_one_beside_a_dead_one() -> None:
    dead, live = lock(pid=gone()), lock()
    with pytest.raises(SymphonyError):
        locks.recover("symphony", "rl")
    assert (dead.exists(), live.exists()) == (False, True)


@pytest.mark.parametrize(
    "text", ["", "{", '{"pid": 1', "[]", '{"pid": "x"}', '{"pid":1,"username":"a"}', "\0\0"]
)
def test_torn_lock(text: str) -> None:
    file = written(text)
    [note] = locks.recover("symphony", "rl")
    assert "an unknown owner" in note
    assert not file.exists()


def test_a_number_used_again_is_told_by_what_was_noted(own_home: Path) -> None:
    """Also by another engine, at the same time of the clock."""
    lock()
    with run_registry.noted(StackName("symphony", "rl"), os.getpid()):
        (note,) = (each for each in (own_home / "runs").rglob("*") if each.is_file())
        note.write_text(json.dumps(["1", "another boot"]))
        assert len(locks.recover("symphony", "rl")) == 1


def test_a_number_used_again_is_told_without_proc(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.setattr(process_table, "HAS_PROC", False)
    name = StackName("symphony", "rl")
    with subprocess.Popen(["sleep", "60"]) as other:
        with run_registry.noted(name, other.pid):
            assert run_registry.is_same(name, other.pid)
            (note,) = (each for each in (own_home / "runs").rglob("*") if each.is_file())
            earlier = json.loads(note.read_bytes())
        other.kill()
    with run_registry.noted(name, os.getpid()):
        (note,) = (each for each in (own_home / "runs").rglob("*") if each.is_file())
        note.write_text(json.dumps(earlier))
        assert not run_registry.is_same(name, os.getpid())


def test_what_killed_runs_noted_is_swept(own_home: Path) -> None:
    left = gone()
    noted = run_registry.noted(StackName("symphony", "rl"), left)
    noted.__enter__()
    with run_registry.noted(StackName("symphony", "rl"), os.getpid()):
        locks.recover("symphony", "rl")
        files = [each.name for each in (own_home / "runs").rglob("*") if each.is_file()]
        assert [name.rpartition("-")[2] for name in files] == [str(os.getpid())]
    assert not [each for each in (own_home / "runs").rglob("*") if each.is_file()]


def test_a_plain_pulumi_lives_as_long_as_its_process(tmp_path: Path) -> None:
    program = tmp_path / "pulumi"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    try:
        wait_for(lambda: psutil.Process(process.pid).name() == "pulumi", 5, "it runs")
        file = lock(pid=process.pid)
        with pytest.raises(SymphonyError):
            locks.recover("symphony", "rl")
        assert file.exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("age", [0.0, 60.0, -60.0])
def test_drafts_of_locks_are_swept_however_young(age: float) -> None:
    """A full disk leaves an empty one, which the engine takes for a lock; -60 is a clock put back since."""
    draft = written("").rename(file_store.root() / "locks/organization/symphony/rl/1.json.18ea.tmp")
    then = time.time() - age
    os.utime(draft, (then, then))
    assert locks.recover("symphony", "rl") == []
    assert not draft.exists()
