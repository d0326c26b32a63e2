"""SymphonyConfig: a singleton with settings from calls, files and the user's handlers."""

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


def test_config_is_a_singleton_and_prefixes_names_with_the_username_once(config: SymphonyConfig) -> None:
    assert config is SymphonyConfig()
    assert config.prefixed("rl") == "rl"
    SymphonyConfig().set_username("ada")
    assert config.prefixed("rl") == "ada-rl"
    assert config.prefixed("ada-rl") == "ada-rl"


def test_an_unknown_field_changes_nothing(config: SymphonyConfig) -> None:
    with pytest.raises(UserError) as caught:
        config.update({"username": "ada", "cluster_name": "x"})
    assert "cluster_name" in caught.value.what
    assert "username, experiment_folder" in caught.value.remedy
    assert config.username is None


def test_reset_removes_the_handlers_and_settings_of_the_user(config: SymphonyConfig) -> None:
    config.register_handler("gpus", lambda number: number * 2)
    config.update({"gpus": 8})
    assert vars(config)["gpus"] == 16
    for taken in ("gpus", "username", "update"):
        with pytest.raises(ValueError, match=taken):
            config.register_handler(taken, str)
    config.set_username("ada")
    config.set_experiment_folder("saved")
    SymphonyConfig.reset()
    assert "gpus" not in vars(config)
    assert (config.username, config.experiment_folder) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["username: ada\nexperiment_folder: /saved\n", '{"username": "ada", "experiment_folder": "/saved"}'],
)
def test_settings_from_a_file(config: SymphonyConfig, tmp_path: Path, text: str) -> None:
    (tmp_path / "settings").write_text(text)
    config.load_config_file(tmp_path / "settings")
    assert (config.username, config.experiment_folder) == ("ada", "/saved")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "cannot be read"),
        (b"username: [ada", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"", "has no settings"),
        (b"user: ada", 'no field "user"'),
        (b"username: 5", "username"),
        (b"experiment_folder: 5", "experiment_folder"),
    ],
)
def test_an_invalid_config_file_is_reported_on_one_line(
    config: SymphonyConfig, tmp_path: Path, content: bytes | None, error: str
) -> None:
    file = tmp_path / "symphony.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=error) as caught:
        config.load_config_file(file)
    assert "\n" not in str(caught.value)
