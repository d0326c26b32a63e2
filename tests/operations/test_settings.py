"""The settings file of a stack is the user's, and committed: what symphony does to it, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in

SLEEPER = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
"""
SETTINGS = "config:\n  # for all of us\n  symphony:patience: '3'\n"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


@pytest.fixture
def settings(desk: Desk) -> Path:
    file = desk.folder / "Pulumi.rl.yaml"
    file.write_text(SETTINGS)
    return file


def test_a_first_up_or_plan_that_fails_leaves_the_settings_as_they_were(desk: Desk, settings: Path) -> None:
    desk.write("1 / 0")
    for words in (("up", "rl", "-y"), ("plan", "rl")):
        assert "ZeroDivisionError" in desk.symphony(*words, code=2).err
        assert settings.read_text() == SETTINGS
    settings.unlink()
    desk.symphony("up", "rl", "-y", code=2)
    assert not settings.exists()
    assert desk.stacks() == set()
