"""The secret and the config files of an experiment, copied into private folders of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from symphony import files, paths

KINDS = ("secrets", "configs")


def folder(server: str, session: str, kind: str) -> Path:
    """Return where files of a kind lie; deleting the experiment removes it."""
    return paths.experiment_folder(server, session) / kind


def copy(server: str, session: str, kind: str, sources: Iterable[str]) -> None:
    """Copy the files, readable by the owner only; those no longer named are removed."""
    home, wanted = folder(server, session, kind), _by_name(sources)
    if not wanted and not home.is_dir():
        return
    files.fresh_folder(home)
    for stale in home.iterdir():
        if stale.name not in wanted:
            files.remove(stale)
    for name, source in wanted.items():
        files.replace(home / name, files.read_source(source), mode=0o400)


def are_copied(server: str, session: str, kind: str, sources: Iterable[str]) -> bool:
    """Return whether the folder has just these files, with what they hold now."""
    home, wanted = folder(server, session, kind), _by_name(sources)
    try:
        copies = {copy.name: content(copy) for copy in home.iterdir()} if home.is_dir() else {}
        return copies == {name: files.read_source(source) for name, source in wanted.items()}
    except OSError:
        return False


def content(copy: Path) -> bytes:
    """Return the content of a copied file; nothing where a process has put something else in its place."""
    try:
        return files.read(copy, limit=1 << 30)
    except OSError:
        return b""


def _by_name(sources: Iterable[str]) -> dict[str, Path]:
    return {Path(file).name: Path(file) for file in sources}
