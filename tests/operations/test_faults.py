"""What a full disk, a lost power and huge outputs do to the state, by their rows in the list of faults."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in

pytestmark = pytest.mark.thorough

SLEEPERS = """
with Experiment() as e:
    for i in range(%d):
        e.new_process(f"p{i}", command=["sleep", "3600"], env={"X": "x" * %d}).binds(f"s{i}")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """One whose store is our own, with the passphrase that symphony makes."""
    with desk_in(tmp_path) as made:
        del made.environment["PULUMI_CONFIG_PASSPHRASE"]
        yield made


@pytest.fixture
def disk(desk: Desk) -> Iterator[Path]:
    """The folder of the state is a disk of 600 KiB."""
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    folder = desk.home / "state"
    folder.mkdir(mode=0o700, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k,mode=700", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def state_of(desk: Desk) -> Path:
    return desk.home / "state" / ".pulumi" / "stacks" / "desk" / "rl.json"


def test_f47_a_full_disk_leaves_a_whole_state_and_is_one_line(desk: Desk, disk: Path) -> None:
    desk.write(SLEEPERS % (2, 1))
    desk.symphony("up", "rl", "-y")
    filler = disk / "filler"
    free = os.statvfs(disk)
    filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize))
    before = state_of(desk).read_bytes()
    desk.write(SLEEPERS % (4, 1))
    ran = desk.symphony("up", "rl", "-y", code=1)
    (line,) = ran.err.splitlines()
    assert "the disk is full" in line
    assert str(disk) in line
    assert state_of(desk).read_bytes() == before
    assert {"p0", "p1"} <= set(desk.processes("rl"))
    filler.unlink()
    desk.symphony("up", "rl", "-y")
    assert set(desk.trees()) == {f"rl/p{i}" for i in range(4)}


def test_f49_files_that_a_lost_power_left_empty_are_mended_or_told(desk: Desk) -> None:
    """0 bytes where the engine or we wrote just before, and drafts that never got their name."""
    desk.write(SLEEPERS % (2, 1))
    desk.symphony("up", "rl", "-y")
    living = desk.trees()
    state = state_of(desk)
    good = state.read_bytes()
    mended = [
        desk.home / "passphrase",
        state.parents[2] / "meta.yaml",
        state.with_name("rl.json.attrs"),
        *(desk.home / "experiments").rglob("record.json"),
        *(desk.home / "experiments").rglob("index"),
    ]
    for file in mended:
        assert file.stat().st_size, file
    # The engine's own, where it was the engine that made the store.
    for file in (*mended, state.parents[2] / "meta.yaml.attrs"):
        file.write_bytes(b"")
    (desk.home / "passphrase.77").write_bytes(b"")
    for draft in ("rl.json.tmp", ".rl.json.77", "rl.json1234.tmp"):
        state.with_name(draft).write_bytes(good[:99])
    locks = state.parents[2] / "locks" / "organization" / "desk" / "rl"
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    (locks / "77.json.18ea.tmp").write_bytes(b"")
    os.utime(locks / "77.json.18ea.tmp", (0, 0))
    assert set(desk.processes("rl")) == {"p0", "p1"}
    assert [each["name"] for each in desk.symphony("ls", "--json").json] == ["rl"]
    assert "Nothing changes" in desk.symphony("up", "rl", "-y").out
    assert desk.trees() == living

    state.write_bytes(b"")
    for words in (("process", "rl"), ("up", "rl", "-y"), ("delete", "rl", "-y")):
        (line,) = desk.symphony(*words, code=1).err.splitlines()
        assert "the state of rl is damaged" in line
        assert f"the engine's last copy is {state}.bak" in line
        assert desk.trees() == living
    assert "unreadable" in desk.symphony("ls").out
    state.write_bytes(state.with_name("rl.json.bak").read_bytes())
    desk.symphony("delete", "rl", "-y")
    assert desk.trees() == {}


def test_f59_ten_megabytes_of_output_are_kept_or_refused(desk: Desk) -> None:
    desk.write("""
import pulumi
lines = "head -c 10000000 /dev/zero | tr '\\\\0' x; echo; echo the end; sleep 3600"
with Experiment() as e:
    e.new_process("loud", command=["sh", "-c", lines])
pulumi.export("big", "y" * 10_000_000)
""")
    said = desk.symphony("up", "rl", "-y")
    assert len(said.out) < 1000
    assert len(desk.symphony("process", "rl").out) < 200
    assert desk.symphony("logs", "rl", "-t", "1").out == "the end\n"
    assert len(desk.symphony("logs", "rl").out) > 10_000_000
    desk.symphony("delete", "rl", "-y")
    desk.write('with Experiment() as e: e.new_process("p", command="true", env={"X": "x" * 10_000_000})')
    refused = desk.symphony("up", "rl", "-y", code=2).err
    assert "env X of p has 10000002 bytes, more than the 131071" in refused
    assert len(refused) < 500


def test_delete_on_a_full_disk_stops_and_frees_before_it_writes(desk: Desk) -> None:
    if os.getuid():
        pytest.skip("only root can mount a small disk")
    desk.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "none", str(desk.home)], check=True)
    try:
        desk.write(SLEEPERS % (2, 1))
        desk.symphony("up", "rl", "-y")
        log = next((desk.home / "experiments").rglob("log"))
        log.write_bytes(b"x\n" * (1 << 19))
        free = os.statvfs(desk.home)
        (desk.home / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize))
        ran = desk.symphony("delete", "rl", "-y")
        assert "rl is deleted: 2 processes stopped" in ran.out
        assert desk.trees() == {}
        assert desk.symphony("ls", "--json").json == []
    finally:
        subprocess.run(["umount", "-l", str(desk.home)], check=True)
