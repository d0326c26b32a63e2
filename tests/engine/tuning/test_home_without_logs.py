"""The home in which the engine keeps no log: the user's own in everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony import paths
from symphony.engine.tuning.home_without_logs import linked_home


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    return tmp_path / "pulumi"


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_all_but_the_logs_is_the_users_own(real: Path) -> None:
    (real / "logs").mkdir(parents=True)
    (real / "credentials.json").write_text("{}")
    place = linked_home()
    assert place is not None
    assert place.stat().st_mode & 0o777 == 0o700
    assert names(place) == {"logs", "credentials.json", "plugins", "workspaces"}
    assert (place / "logs").is_file()
    (place / "plugins" / "resource-x").mkdir()
    assert names(real / "plugins") == {"resource-x"}

    (real / "credentials.json").unlink()
    (real / "templates").mkdir()
    assert linked_home() == place
    assert names(place) == {"logs", "templates", "plugins", "workspaces"}


def test_what_the_engine_put_there_itself_stays(real: Path) -> None:
    place = linked_home()
    assert place is not None
    (place / "notes").write_text("of the engine")
    (real / "notes").write_text("of the user")
    linked_home()
    assert (place / "notes").read_text() == "of the engine"


def test_the_users_own_where_it_must_be(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = linked_home()
    with monkeypatch.context() as patch:
        patch.setenv("PULUMI_HOME", str(place))
        assert linked_home() is None, "it is quiet already"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "https://api.pulumi.com")
    assert linked_home() is None, "a login that the engine may renew"


def test_no_home_to_be_had_is_no_error(real: Path) -> None:
    paths.home().parent.mkdir(exist_ok=True)
    paths.home().write_text("in the way")
    assert linked_home() is None
