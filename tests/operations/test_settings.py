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
OTHER = {"PULUMI_CONFIG_PASSPHRASE": "another"}


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


@pytest.mark.slow
def test_encrypted_settings_with_a_wrong_passphrase_are_an_error_and_stay_unchanged(
    sandbox: Sandbox, settings: Path
) -> None:
    """Secrets are in the settings, or in the state of another passphrase."""
    sandbox.write(f'{SLEEPER}import pulumi; pulumi.export("key", pulumi.Output.secret("hush"))')
    sandbox.symphony("up", "rl", "-y")
    living = sandbox.trees()
    secret = f"{SETTINGS}  sandbox:key:\n    secure: v1:VJYRiKOhVqzdkTWS:SNjfsM+eRvYGHSQvJDYDgG5kv9yVZw==\n"
    for text, passphrase in ((secret + SALT, {}), (SETTINGS + SALT, OTHER)):
        settings.write_text(text)
        for words in (("plan", "rl"), ("up", "rl", "-y"), ("delete", "rl", "-y")):
            (line,) = sandbox.symphony(*words, code=2, env=passphrase).err.splitlines()
            assert "this passphrase does not decrypt the secrets of rl" in line
            assert settings.read_text() == text
            assert sandbox.trees() == living
