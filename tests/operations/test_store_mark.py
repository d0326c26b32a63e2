"""The mark of a state store: a new launch never adopts the pods of another store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from symphony import paths


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty store of files, and its own home."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{folder}")
    paths._mark_in.cache_clear()
    return folder


def test_two_states_at_the_same_path_are_two(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people who are root in two containers share a cluster."""
    mine, place = paths.owner_of("symphony", "numint.pods"), paths.store_id()
    shutil.rmtree(elsewhere)
    elsewhere.mkdir()
    monkeypatch.setenv("SYMPHONY_HOME", str(elsewhere.parent / "of another"))
    paths._mark_in.cache_clear()
    theirs = paths.owner_of("symphony", "numint.pods")
    assert paths.store_id() == place
    assert theirs != mine
    assert paths.owner_label(theirs, mine) == (
        "a different stack named symphony/numint.pods (another user or Pulumi backend)"
    )
    assert paths.owner_label("symphony/rl#12345678", mine) == "symphony/rl"


def test_it_stays_with_the_state_and_outlives_it(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = paths.store_mark()
    paths._mark_in.cache_clear()
    assert paths.store_mark() == mark
    # Deleted, and begun again: what lives is still known.
    shutil.rmtree(elsewhere)
    paths._mark_in.cache_clear()
    assert paths.store_mark() == mark
    elsewhere.mkdir()
    assert paths.store_mark() == mark
    # Reached from another home, or kept at another path.
    monkeypatch.setenv("SYMPHONY_HOME", str(elsewhere.parent / "other home"))
    moved = elsewhere.rename(elsewhere.with_name("moved"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{moved}")
    paths._mark_in.cache_clear()
    assert paths.store_mark() == mark


@pytest.mark.parametrize("content", [b"", b"zz", b"\xff\xfe"])
def test_a_damaged_mark_is_written_again(elsewhere: Path, content: bytes) -> None:
    mark = paths.store_mark()
    file = elsewhere / ".pulumi" / "symphony-id"
    file.write_bytes(content)
    paths._mark_in.cache_clear()
    assert paths.store_mark() == mark
    assert file.read_text() == f"{mark}\n"


def test_a_store_without_a_mark_file_is_named_by_its_url(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere.rmdir()
    assert paths.store_mark() == paths.store_id()
    assert not paths.home().exists(), "to look makes nothing"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://team")
    assert paths.store_mark() == paths.store_id()
