"""Keeps the history of our own store short, and removes that of a deleted stack: the engine does neither."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from symphony import paths
from symphony.engine.state import file_store, passphrase

KEPT = 10
# rl-1795252200484766864.checkpoint.json.gz, rl.1795252200484766864.json.bak and their .attrs
_STAMP = re.compile(r"[-.](\d{16,20})\.")


def prune(project: str, stack: str) -> int:
    """Remove all but the newest runs of a stack, in our own store only; how many files went."""
    if paths.store_url() != passphrase.own_store():
        return 0
    return sum(_prune(file_store.root() / kind / project / stack) for kind in ("history", "backups"))


def purge(name: file_store.StackName) -> None:
    """Remove every copy of what a stack was: history, backups, and the state before the last change."""
    if not file_store.is_files():
        return
    for kind in ("history", "backups"):
        shutil.rmtree(file_store.root() / kind / name.project / name.stack, ignore_errors=True)
    for ending in (".json.bak", ".json.gz.bak", ".json.bak.attrs", ".json.gz.bak.attrs"):
        (file_store.root() / "stacks" / name.project / f"{name.stack}{ending}").unlink(missing_ok=True)


def _prune(folder: Path) -> int:
    by_run: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if match := _STAMP.search(file.name):
                by_run.setdefault(match[1], []).append(file)
    removed = 0
    for run in sorted(by_run, key=int)[:-KEPT]:
        for file in by_run[run]:
            # The next run tries again: a history that is too long harms nobody.
            with contextlib.suppress(OSError):
                file.unlink()
                removed += 1
    return removed
