"""A state that is not what the engine wrote is noticed, and the copy of it comes back."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import warnings
from pathlib import Path

import pytest

from symphony.engine.state import file_store
from symphony.errors import SymphonyError

NAME = file_store.StackName("symphony", "rl")
RESOURCES = [
    {"urn": f"urn:pulumi:rl::symphony::t:index:T::p{number}", "type": "t:index:T"} for number in range(5)
]


def written(resources: list[dict[str, str]]) -> Path:
    """As the engine leaves it, with its note."""
    latest = {"manifest": {"time": "2026-11-21T09:10:00Z"}, "resources": resources}
    data = json.dumps({"version": 3, "checkpoint": {"stack": str(NAME), "latest": latest}}).encode()
    file = file_store.root() / "stacks" / NAME.project / f"{NAME.stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    note = base64.b64encode(hashlib.md5(data).digest()).decode()
    file.with_name(f"{file.name}.attrs").write_text(json.dumps({"user.metadata": None, "md5": note}))
    file.write_bytes(data)
    return file


def spoilt(good: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(good))
    if random.random() < 0.5:
        return good[:at]
    return good[:at] + bytes([good[at] ^ 1 << random.randrange(8)]) + good[at + 1 :]


@pytest.mark.thorough
def test_a_thousand_damaged_states_come_back() -> None:
    file = written(RESOURCES)
    good, state = file.read_bytes(), file_store.read(NAME)
    file_store.keep_copy(NAME)
    choices = random.Random(1)
    for _ in range(1000):
        written(RESOURCES)
        file.write_bytes(bad := spoilt(good, choices))
        with pytest.warns(UserWarning, match="the state of rl was damaged: symphony restored its copy of"):
            assert file_store.read(NAME).resources == state.resources
        assert file.read_bytes() == good
        assert file.with_name("rl.json.damaged").read_bytes() == bad


@pytest.mark.filterwarnings("error")
def test_what_others_wrote_is_left_alone() -> None:
    """A plain `pulumi` after us; an engine that was killed between note and file; one without notes."""
    file = written(RESOURCES)
    file_store.keep_copy(NAME)
    before = written(RESOURCES[:4]).read_bytes()
    assert len(file_store.read(NAME).resources) == 4
    written(RESOURCES[:3])
    file.write_bytes(before)
    file.with_name("rl.json.bak").write_bytes(before)
    assert len(file_store.read(NAME).resources) == 4
    file.write_bytes(before.replace(b"::p0", b"::q0"))
    file.with_name("rl.json.attrs").unlink()
    assert file_store.read(NAME).resources[0].name == "q0"


def test_a_damaged_copy_is_not_put_back(own_home: Path) -> None:
    file = written(RESOURCES)
    file_store.keep_copy(NAME)
    [copy] = (own_home / "copies").rglob("rl.json")
    copy.write_bytes(copy.read_bytes()[:-1])
    file.write_bytes(b"{")
    with pytest.raises(SymphonyError, match="the state of rl is damaged"):
        file_store.read(NAME)
    assert file.read_bytes() == b"{"


def test_what_the_engine_emptied_on_a_full_disk_is_what_it_was_before(own_home: Path) -> None:
    """It copies the file, and then may be able to write nothing."""
    file = written(RESOURCES)
    file_store.keep_copy(NAME)
    later = written(RESOURCES[:2]).read_bytes()
    file.with_name("rl.json.bak").write_bytes(later)
    for empty in (b"", b'{"version": 0}'):
        file.write_bytes(empty)
        file.with_name("rl.json.attrs").unlink()
        file_store.keep_copy(NAME)
        with pytest.warns(UserWarning, match="was damaged"):
            assert len(file_store.read(NAME).resources) == 2


def test_of_a_deleted_stack_no_copy_is_left(own_home: Path) -> None:
    file = written(RESOURCES)
    file_store.keep_copy(NAME)
    file.write_bytes(b"")
    with pytest.warns(UserWarning, match="was damaged"):
        file_store.read(NAME)
    written([])
    file_store.keep_copy(NAME)
    assert not list((own_home / "copies").rglob("*.json"))
    assert not list(file.parent.glob("*.damaged"))


def test_the_copy_is_of_what_the_engine_wrote(own_home: Path) -> None:
    file = written(RESOURCES)
    file_store.keep_copy(NAME)
    file.write_bytes(file.read_bytes()[:-1])
    file_store.keep_copy(NAME)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(file_store.read(NAME).resources) == 5
    assert all(each.stat().st_mode & 0o077 == 0 for each in (own_home / "copies").rglob("*"))
