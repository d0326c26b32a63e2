"""The settings file of a stack is the user's, and committed: what symphony does to it, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in

pytestmark = pytest.mark.thorough

SLEEPER = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
"""
SETTINGS = "config:\n  # for all of us\n  symphony:patience: '3'\n"
# What somebody with a passphrase of their own committed.
SALT = "encryptionsalt: v1:3k4nB5vvVt8=:v1:VJYRiKOhVqzdkTWS:SNjfsM+eRvYGHSQvJDYDgG5kv9yVZw==\n"
OTHER = {"PULUMI_CONFIG_PASSPHRASE": "another"}


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


def test_a_salt_of_somebody_else_that_keeps_nothing_secret_is_in_nobodys_way(
    desk: Desk, settings: Path
) -> None:
    settings.write_text(SETTINGS + SALT)
    desk.write(SLEEPER)
    desk.symphony("plan", "rl")
    assert settings.read_text() == SETTINGS + SALT, "a plan changes nothing"
    said = desk.symphony("up", "rl", "-y")
    assert f"the encryptionsalt in {settings} was of another passphrase" in said.out
    assert settings.read_text().startswith(SETTINGS + "encryptionsalt: ")
    assert SALT not in settings.read_text()
    assert set(desk.trees()) == {"rl/a"}
    settings.write_text(SETTINGS + SALT)
    desk.symphony("delete", "rl", "-y")
    assert settings.read_text() == SETTINGS + SALT, "a deletion has no use for settings"
    assert desk.trees() == {}


def test_what_is_encrypted_needs_its_passphrase_and_nothing_is_touched(desk: Desk, settings: Path) -> None:
    """In the settings, or in the state of another passphrase."""
    desk.write(f'{SLEEPER}import pulumi; pulumi.export("key", pulumi.Output.secret("hush"))')
    desk.symphony("up", "rl", "-y")
    living = desk.trees()
    secret = f"{SETTINGS}  desk:key:\n    secure: v1:VJYRiKOhVqzdkTWS:SNjfsM+eRvYGHSQvJDYDgG5kv9yVZw==\n"
    for text, passphrase in ((secret + SALT, {}), (SETTINGS + SALT, OTHER)):
        settings.write_text(text)
        for words in (("plan", "rl"), ("up", "rl", "-y"), ("delete", "rl", "-y")):
            (line,) = desk.symphony(*words, code=2, env=passphrase).err.splitlines()
            assert "this passphrase does not open the secrets of rl. Set PULUMI_CONFIG_PASSPHRASE" in line
            assert settings.read_text() == text
            assert desk.trees() == living
