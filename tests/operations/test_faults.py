"""The state after a full disk or a power loss."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, sandbox_in

pytestmark = pytest.mark.thorough

# The state that the engine writes after reading an empty file.
BLANK = b'{"version":0,"checkpoint":{"stack":"organization/sandbox/rl"}}'

SLEEPERS = """
with Experiment() as e:
    for i in range(%d):
        e.new_process(f"p{i}", command=["sleep", "3600"], env={"X": "x" * %d}).binds(f"s{i}")
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox with symphony's own state folder and passphrase."""
    with sandbox_in(tmp_path) as made:
        del made.environment["PULUMI_CONFIG_PASSPHRASE"]
        yield made


@pytest.fixture
def disk(sandbox: Sandbox) -> Iterator[Path]:
    """Mount a disk of 600 KiB as the state folder of the sandbox, and yield that folder."""
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    folder = sandbox.home / "state"
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k,mode=700", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def state_of(sandbox: Sandbox) -> Path:
    return sandbox.home / "state" / ".pulumi" / "stacks" / "sandbox" / "rl.json"


def test_a_full_disk_is_a_one_line_error_and_leaves_the_state_intact(sandbox: Sandbox, disk: Path) -> None:
    sandbox.write(SLEEPERS % (2, 1))
    sandbox.symphony("up", "rl", "-y")
    filler = disk / "filler"
    free = os.statvfs(disk)
    filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize))
    before = state_of(sandbox).read_bytes()
    sandbox.write(SLEEPERS % (4, 1))
    ran = sandbox.symphony("up", "rl", "-y", code=1)
    (line,) = ran.err.splitlines()
    assert "the disk is full" in line
    assert str(disk) in line
    assert state_of(sandbox).read_bytes() == before
    assert {"p0", "p1"} <= set(sandbox.processes("rl"))
    filler.unlink()
    sandbox.symphony("up", "rl", "-y")
    assert set(sandbox.trees()) == {f"rl/p{i}" for i in range(4)}


def test_files_left_empty_by_a_power_failure_are_repaired_or_reported(sandbox: Sandbox) -> None:
    """A power failure leaves empty files, and temporary files that were never renamed."""
    sandbox.write(SLEEPERS % (2, 1))
    sandbox.symphony("up", "rl", "-y")
    living = sandbox.trees()
    state = state_of(sandbox)
    good = state.read_bytes()
    mended = [
        state.parents[2] / "meta.yaml",
        state.with_name("rl.json.attrs"),
        *(sandbox.home / "experiments").rglob("record.json"),
        *(sandbox.home / "experiments").rglob("index"),
    ]
    for file in mended:
        assert file.stat().st_size, file
    # meta.yaml.attrs may be missing until here: only an engine that created the state folder writes it.
    for file in (*mended, state.parents[2] / "meta.yaml.attrs"):
        file.write_bytes(b"")
    (sandbox.home / "passphrase.77").write_bytes(b"")
    for draft in ("rl.json.tmp", ".rl.json.77", "rl.json1234.tmp"):
        state.with_name(draft).write_bytes(good[:99])
    locks = state.parents[2] / "locks" / "organization" / "sandbox" / "rl"
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    (locks / "77.json.18ea.tmp").write_bytes(b"")
    os.utime(locks / "77.json.18ea.tmp", (0, 0))
    assert set(sandbox.processes("rl")) == {"p0", "p1"}
    assert [each["name"] for each in sandbox.symphony("ls", "--json").json] == ["rl"]
    assert "Nothing changes" in sandbox.symphony("up", "rl", "-y").out
    assert sandbox.trees() == living

    state.write_bytes(b"")
    ran = sandbox.symphony("process", "rl", "--json")
    assert set(sandbox.processes("rl")) == {"p0", "p1"}
    (line,) = ran.err.splitlines()
    assert line.startswith("symphony: the state of rl was damaged: symphony restored ")
    backup = state.with_name("rl.json.bak")
    whole = backup.read_bytes()
    copies = [backup, *(state.parents[2] / "history" / "sandbox" / "rl").glob("*.checkpoint.json")]
    for file in (*copies, state):
        file.write_bytes(whole[:-20])
    for words in (("process", "rl"), ("up", "rl", "-y"), ("delete", "rl", "-y")):
        (line,) = sandbox.symphony(*words, code=1).err.splitlines()
        assert "the state of rl is damaged" in line
        assert "no copy" in line
        assert sandbox.trees() == living
    assert "unreadable" in sandbox.symphony("ls").out
    for file in (*copies, state):
        file.write_bytes(BLANK)
    ran = sandbox.symphony("up", "rl", "-y")
    assert "the state of rl was empty and has no copy" in ran.err
    assert sandbox.trees() == living
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.slow
def test_delete_works_on_a_full_disk(sandbox: Sandbox) -> None:
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    sandbox.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "none", str(sandbox.home)], check=True)
    try:
        sandbox.write(SLEEPERS % (2, 1))
        sandbox.symphony("up", "rl", "-y")
        log = next((sandbox.home / "experiments").rglob("log"))
        # `delete` removes the logs first: this one leaves the engine the room that it needs.
        log.write_bytes(b"x\n" * (1 << 19))
        free = os.statvfs(sandbox.home)
        (sandbox.home / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize))
        ran = sandbox.symphony("delete", "rl", "-y")
        assert "Deleted rl: stopped 2 processes" in ran.out
        assert sandbox.trees() == {}
        assert sandbox.symphony("ls", "--json").json == []
    finally:
        subprocess.run(["umount", "-l", str(sandbox.home)], check=True)
