"""The id of a state backend: stacks of two backends never own the same pods."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from symphony import paths


@pytest.fixture
def empty_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty file backend with its own home folder."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("SYMPHONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{folder}")
    paths._identity_in.cache_clear()
    return folder


def test_two_state_backends_at_the_same_path_have_different_ids(
    empty_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For instance, two users who are root in two containers share a cluster."""
    mine, place = paths.owner_of("symphony", "numint.pods"), paths.store_id()
    shutil.rmtree(empty_state)
    empty_state.mkdir()
    monkeypatch.setenv("SYMPHONY_HOME", str(empty_state.parent / "of another"))
    paths._identity_in.cache_clear()
    theirs = paths.owner_of("symphony", "numint.pods")
    assert paths.store_id() == place
    assert theirs != mine
    assert paths.owner_label(theirs, mine) == (
        "a different stack named symphony/numint.pods (another user or Pulumi backend)"
    )
    assert paths.owner_label("symphony/rl#12345678", mine) == "symphony/rl"


def test_the_state_id_moves_with_the_state_and_survives_its_deletion(
    empty_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = paths.store_identity()
    paths._identity_in.cache_clear()
    assert paths.store_identity() == identity
    # Deleted and created again: running pods still belong to it.
    shutil.rmtree(empty_state)
    paths._identity_in.cache_clear()
    assert paths.store_identity() == identity
    empty_state.mkdir()
    assert paths.store_identity() == identity
    # Used from another home, or moved to another path.
    monkeypatch.setenv("SYMPHONY_HOME", str(empty_state.parent / "other home"))
    moved = empty_state.rename(empty_state.with_name("moved"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{moved}")
    paths._identity_in.cache_clear()
    assert paths.store_identity() == identity


@pytest.mark.parametrize(
    "content", [b"", b"zz", b"\xff\xfe", None], ids=["empty", "short", "bytes", "folder"]
)
@pytest.mark.parametrize("which", ["in the state", "its copy"])
def test_a_damaged_state_id_is_rewritten(empty_state: Path, content: bytes | None, which: str) -> None:
    identity = paths.store_identity()
    copy = paths.home() / "stores" / paths.store_id()
    file = empty_state / ".pulumi" / "symphony-id" if which == "in the state" else copy
    file.unlink()
    file.mkdir() if content is None else file.write_bytes(content)
    paths._identity_in.cache_clear()
    assert paths.store_identity() == identity
    assert file.read_text() == f"{identity}\n"


def test_a_state_backend_without_id_file_is_identified_by_its_url(
    empty_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_state.rmdir()
    assert paths.store_identity() == paths.store_id()
    assert not paths.home().exists(), "to look makes nothing"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://team")
    assert paths.store_identity() == paths.store_id()
