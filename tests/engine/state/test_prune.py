"""The history of stacks is pruned in symphony's default state folder only."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.engine.state import file_store, store

NAME = file_store.StackName("tiny", "dev")


def fill(kind: str, runs: int) -> Path:
    folder = file_store.root() / kind / "tiny" / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    for run in range(runs):
        stamp = 1795252200000000000 + run
        for name in (
            f"dev-{stamp}.checkpoint.json",
            f"dev-{stamp}.history.json",
            f"dev-{stamp}.history.json.attrs",
        ):
            (folder / name).write_text("{}")
    return folder


def test_prune_keeps_the_newest_history_entries() -> None:
    store.prune(NAME)
    history, backups = fill("history", 25), fill("backups", 3)
    (history / "notes.txt").write_text("not ours")
    store.prune(NAME)
    kept = sorted(path.name for path in history.glob("*.history.json"))
    assert kept == [f"dev-{1795252200000000000 + run}.history.json" for run in range(15, 25)]
    assert (history / "notes.txt").exists()
    assert len(list(backups.iterdir())) == 9, "no backup of up to ten runs is pruned"


def test_the_history_of_a_users_own_backend_is_not_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'theirs'}")
    history = fill("history", 25)
    store.prune(NAME)
    assert len(list(history.glob("*.history.json"))) == 25
