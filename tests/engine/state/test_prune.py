"""The history of our own store stays short, that of others as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from symphony.engine.state import file_store, prune
from tests.engine.support import Runner


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


def test_the_newest_runs_stay() -> None:
    history, backups = fill("history", 25), fill("backups", 3)
    (history / "notes.txt").write_text("not ours")
    assert prune.prune("tiny", "dev") == 15 * 3
    kept = sorted(path.name for path in history.glob("*.history.json"))
    assert kept == [f"dev-{1795252200000000000 + run}.history.json" for run in range(15, 25)]
    assert (history / "notes.txt").exists()
    assert len(list(backups.iterdir())) == 9
    assert prune.prune("tiny", "dev") == 0


def test_a_users_own_store_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path / 'theirs'}")
    fill("history", 25)
    assert prune.prune("tiny", "dev") == 0


def test_no_history_yet() -> None:
    assert prune.prune("tiny", "never") == 0


def test_after_a_run(run: Runner) -> None:
    """The engine's own names for its files are those that we prune."""
    folder = fill("history", 20)
    run("up")
    assert len(list(folder.glob("*.history.json"))) == prune.KEPT
    newest = max(folder.glob("*.history.json"))
    assert '"result"' in newest.read_text()
