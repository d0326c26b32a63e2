"""SymphonyConfig: one object, settings one by one, several at once, from a file, and of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symphony import SymphonyConfig, UserError


@pytest.fixture
def config() -> Iterator[SymphonyConfig]:
    SymphonyConfig().reset()
    yield SymphonyConfig()
    SymphonyConfig().reset()


def test_it_is_one_object(config: SymphonyConfig) -> None:
    SymphonyConfig().set_username("ada")
    assert config is SymphonyConfig()
    assert config.username == "ada"


def test_the_name_is_put_before_once(config: SymphonyConfig) -> None:
    assert config.prefixed("rl") == "rl"
    config.set_username("ada")
    assert config.prefixed("rl") == "ada-rl"
    assert config.prefixed("ada-rl") == "ada-rl"


def test_update_makes_several_settings(config: SymphonyConfig) -> None:
    config.update({"username": "ada", "experiment_folder": "~/saved"})
    assert config.username == "ada"
    assert config.experiment_folder == "~/saved"


def test_a_field_that_nobody_handles_changes_nothing(config: SymphonyConfig) -> None:
    with pytest.raises(UserError) as caught:
        config.update({"username": "ada", "cluster_name": "x"})
    assert str(caught.value) == (
        'SymphonyConfig has no field "cluster_name". The fields are: username, experiment_folder.'
    )
    assert config.username is None


def test_a_handler_of_the_users_own_until_reset(config: SymphonyConfig) -> None:
    config.register_handler("gpus", lambda number: number * 2)
    config.update({"gpus": 8})
    assert vars(config)["gpus"] == 16
    for taken in ("gpus", "username", "update"):
        with pytest.raises(ValueError, match=f'the field "{taken}" has a handler'):
            config.register_handler(taken, str)
    config.set_username("ada")
    config.set_experiment_folder("saved")
    SymphonyConfig.reset()
    assert "gpus" not in vars(config)
    assert (config.username, config.experiment_folder) == (None, None)
    with pytest.raises(UserError, match="gpus"):
        config.update({"gpus": 8})


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("symphony.yaml", "username: ada\nexperiment_folder: /saved\n"),
        ("symphony.json", '{"username": "ada", "experiment_folder": "/saved"}'),
    ],
)
def test_settings_from_a_file(config: SymphonyConfig, tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    config.load_config_file(tmp_path / file)
    assert config.username == "ada"
    assert config.experiment_folder == "/saved"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, "cannot be read"),
        (b"username: [ada", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"ada", "has no settings"),
        (b"", "has no settings"),
        (b"user: ada", 'no field "user"'),
        (b"username: 5", "5 is not a name"),
        (b"experiment_folder: 5", "5 is not a folder"),
    ],
    ids=["missing", "no yaml", "no text", "a word", "empty", "unknown", "name", "folder"],
)
def test_a_file_that_is_of_no_use(
    config: SymphonyConfig, tmp_path: Path, raw: bytes | None, message: str
) -> None:
    file = tmp_path / "symphony.yaml"
    if raw is not None:
        file.write_bytes(raw)
    with pytest.raises(UserError, match=message) as caught:
        config.load_config_file(file)
    assert "\n" not in str(caught.value)


def test_a_handler_must_be_a_function(config: SymphonyConfig) -> None:
    with pytest.raises(UserError, match='the handler of "gpus" is a int'):
        config.register_handler("gpus", 8)  # type: ignore[arg-type]
