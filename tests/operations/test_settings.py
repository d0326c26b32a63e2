"""`Pulumi.STACK.yaml` belongs to the user, who commits it: failed commands leave it unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox import Sandbox

pytestmark = pytest.mark.thorough

SLEEPER = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
"""
SETTINGS = "config:\n  # for all of us\n  symphony:patience: '3'\n"
# The file that a user with another passphrase committed.
SALT = "encryptionsalt: v1:3k4nB5vvVt8=:v1:VJYRiKOhVqzdkTWS:SNjfsM+eRvYGHSQvJDYDgG5kv9yVZw==\n"


@pytest.fixture
def settings(sandbox: Sandbox) -> Path:
    file = sandbox.folder / "Pulumi.rl.yaml"
    file.write_text(SETTINGS)
    return file


def test_a_failed_first_up_or_plan_leaves_the_settings_file_unchanged(
    sandbox: Sandbox, settings: Path
) -> None:
    sandbox.write("1 / 0")
    for words in (("up", "rl", "-y"), ("plan", "rl")):
        assert "ZeroDivisionError" in sandbox.symphony(*words, code=2).err
        assert settings.read_text() == SETTINGS
    settings.unlink()
    sandbox.symphony("up", "rl", "-y", code=2)
    assert not settings.exists()
    assert sandbox.stacks() == set()


def test_an_encryption_salt_of_another_passphrase_is_an_error_that_names_its_line(
    sandbox: Sandbox, settings: Path
) -> None:
    settings.write_text(SETTINGS + SALT)
    sandbox.write(SLEEPER)
    for words in (("plan", "rl"), ("up", "rl", "-y")):
        (line,) = sandbox.symphony(*words, code=2).err.splitlines()
        assert "(Pulumi.rl.yaml)" in line
        assert "remove its line `encryptionsalt`" in line
        assert settings.read_text() == SETTINGS + SALT
    settings.write_text(SETTINGS)
    sandbox.symphony("up", "rl", "-y")
    assert set(sandbox.trees()) == {"rl/a"}
