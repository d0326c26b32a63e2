"""A state that is cut off or empty comes back from the copy that the engine makes before it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from symphony.engine.state import file_store
from symphony.errors import SymphonyError

NAME = file_store.StackName("symphony", "rl")
RESOURCES = [
    {"urn": f"urn:pulumi:rl::symphony::t:index:T::p{number}", "type": "t:index:T"} for number in range(5)
]


def written(count: int = 5) -> Path:
    latest = {"manifest": {"time": "2026-11-21T09:10:00Z"}, "resources": RESOURCES[:count]}
    file = file_store.root() / "stacks" / NAME.project / f"{NAME.stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"stack": str(NAME), "latest": latest}}))
    file.with_name(f"{file.name}.attrs").write_text("{}")
    return file


@pytest.mark.parametrize("rest", [b"", b"\0\0", b'{"version": 0}', b'{"version": 3, "check'])
def test_a_damaged_state_is_what_it_was_before(rest: bytes) -> None:
    file = written(4)
    good = file.read_bytes()
    file.with_name("rl.json.bak").write_bytes(good)
    file.write_bytes(rest)
    with pytest.warns(UserWarning, match="the state of rl was damaged"):
        assert len(file_store.read(NAME).resources) == 4
    assert file.read_bytes() == good
    assert file.with_name("rl.json.damaged").read_bytes() == rest
    assert not file.with_name("rl.json.attrs").exists()


def test_the_copy_after_the_last_run_is_newer_than_the_one_before_it() -> None:
    file = written(4)
    good = file.read_bytes()
    before, after = (
        file.with_name("rl.json.bak"),
        file_store.root() / "history/symphony/rl/rl-17.checkpoint.json",
    )
    after.parent.mkdir(parents=True)
    after.write_bytes(good)
    before.write_bytes(written(0).read_bytes())
    os.utime(before, (1, 1))
    file.write_bytes(b"{")
    with pytest.warns(UserWarning, match="the state of rl was damaged"):
        assert len(file_store.read(NAME).resources) == 4
    assert file.read_bytes() == good


@pytest.mark.parametrize("copy", [None, b"{"])
def test_a_damaged_state_without_a_whole_copy_stays(copy: bytes | None) -> None:
    file = written()
    if copy is not None:
        file.with_name("rl.json.bak").write_bytes(copy)
    file.write_bytes(b"{")
    with pytest.raises(SymphonyError, match="the state of rl is damaged"):
        file_store.read(NAME)
    assert file.read_bytes() == b"{"
