"""A truncated or empty state file is restored from the copy that the engine makes before it writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from symphony import files, paths
from symphony.engine.state import file_store
from symphony.errors import SymphonyError
from symphony.operations import runs, stacks
from tests.sandbox import within

NAME = file_store.StackName("symphony", "rl")
RESOURCES = [
    {"urn": f"urn:pulumi:rl::symphony::t:index:T::p{number}", "type": "t:index:T"} for number in range(5)
]


def write_state(count: int = 5) -> Path:
    latest = {"manifest": {"time": "2026-11-21T09:10:00Z"}, "resources": RESOURCES[:count]}
    file = file_store.root() / "stacks" / NAME.project / f"{NAME.stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": str(NAME), "latest": latest}}))
    file.with_name(f"{file.name}.attrs").write_text("{}")
    return file


@pytest.mark.parametrize("rest", [b"", b"\0\0", b'{"version": 0}', b'{"version": 3, "check'])
def test_a_damaged_state_is_restored_from_the_backup(rest: bytes) -> None:
    file = write_state(4)
    good = file.read_bytes()
    file.with_name("rl.json.bak").write_bytes(good)
    file.write_bytes(rest)
    with pytest.warns(UserWarning, match="the state of rl was damaged"):
        assert len(file_store.read_state(NAME).resources) == 4
    assert file.read_bytes() == good
    assert file.with_name("rl.json.damaged").read_bytes() == rest
    assert not file.with_name("rl.json.attrs").exists()


def test_the_newest_backup_is_restored() -> None:
    file = write_state(4)
    good = file.read_bytes()
    before, after = (
        file.with_name("rl.json.bak"),
        file_store.root() / "history/symphony/rl/rl-17.checkpoint.json",
    )
    after.parent.mkdir(parents=True)
    after.write_bytes(good)
    before.write_bytes(write_state(0).read_bytes())
    os.utime(before, (1, 1))
    file.write_bytes(b"{")
    with pytest.warns(UserWarning, match="the state of rl was damaged"):
        assert len(file_store.read_state(NAME).resources) == 4
    assert file.read_bytes() == good


@pytest.mark.parametrize("copy", [None, b"{"])
def test_a_damaged_state_without_a_valid_backup_is_an_error_and_stays_unchanged(copy: bytes | None) -> None:
    file = write_state()
    if copy is not None:
        file.with_name("rl.json.bak").write_bytes(copy)
    file.write_bytes(b"{")
    with pytest.raises(SymphonyError, match="the state of rl is damaged"):
        file_store.read_state(NAME)
    assert file.read_bytes() == b"{"


def test_a_state_that_a_full_disk_cut_is_not_called_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    write_state().write_bytes(b"{")
    monkeypatch.setattr(file_store, "is_full", lambda: True)
    with pytest.raises(SymphonyError, match="the disk is full"):
        file_store.read_state(NAME)


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir], ids=["pipe", "folder"])
def test_pipes_or_folders_in_place_of_state_files_do_not_block_and_are_replaced(
    plant: Callable[[Path], None],
) -> None:
    state = write_state()
    mark, layout, note = (
        file_store.root() / "symphony-id",
        file_store.root() / "meta.yaml",
        state.with_name("rl.json.attrs"),
    )
    current, folder = paths.home() / "current", runs.folder_of(NAME) / "1"
    folder.mkdir(parents=True)
    known = paths.store_identity()
    for file in (mark, layout, note, current, folder / runs.RECORD, folder / runs.PLAN):
        files.remove(file)
        plant(file)
    with within(20):
        assert paths.store_identity() == known
        file_store.prepare()
        file_store.repair(NAME)
        assert stacks.current() == ""
        stacks.set_current(NAME)
        assert runs.read(NAME, 1).missing
        assert runs.plan_file(NAME, 1) == {}
    assert layout.read_bytes() == b"version: 1\n"
    assert not note.exists()
    assert stacks.current() == str(NAME)
