"""The folder of an experiment, with its owner file and copies of secret and config files, and its lock.

Owner: the stack of the experiment, as paths.owner_of() writes it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from symphony import files, paths
from symphony_tmux import names

Kind = TypeVar("Kind")
OWNER = "owner"
KINDS = ("secrets", "configs")
LOCK_SECONDS = 20.0
_locks: dict[Path, int] = {}
_lock = threading.Lock()


def owner_of(folder: Path) -> str:
    """Return the owner of this folder; empty if its owner file is missing or damaged."""
    try:
        owner = files.read(folder / OWNER, limit=1 << 12).decode()
    except (OSError, ValueError):
        return ""
    return owner if names.is_owner(owner) else ""


def write_owner(folder: Path, owner: str) -> None:
    files.replace(folder / OWNER, owner.encode())


def repair_owner(folder: Path, owner: str) -> None:
    """Restore the owner file of a folder if it is missing or damaged."""
    if folder.is_dir() and not folder.is_symlink() and not owner_of(folder):
        write_owner(files.own_folder(folder), owner)


def owners() -> set[str]:
    """Return every owner that has a folder."""
    return {owner_of(folder) for folder in folders()} - {""}


def servers(owner: str) -> set[str]:
    """Return the tmux servers of this owner's experiments that have a folder."""
    return {paths.server_of(folder) for folder in folders(owner)}


def folders(owner: str = "") -> list[Path]:
    """Return the folders of an owner's experiments; without an owner, of all experiments."""
    all_folders = [file.parent for file in files.matching(paths.experiments(), f"*/{OWNER}")]
    return [folder for folder in all_folders if owner_of(folder) == owner] if owner else all_folders


def lock(server: str, session: str) -> None:
    """Lock the experiment for the life of this process.

    The engine's stack lock ends with the engine, but its provider may live a little longer.
    """
    file = _lock_file(server, session)
    with _lock:
        if file not in _locks:
            _locks[file] = files.acquire(file, seconds=LOCK_SECONDS, what=f"experiment {session}")


def remove_lock(server: str, session: str) -> None:
    """Remove the lock of a deleted experiment, if this process holds it."""
    file = _lock_file(server, session)
    with _lock:
        descriptor = _locks.pop(file, None)
        if descriptor is not None:
            file.unlink(missing_ok=True)
            os.close(descriptor)


def _lock_file(server: str, session: str) -> Path:
    return paths.home() / "tmux" / f"{server}.{session}.turn"


def copy_files(folder: Path, sources: Iterable[str]) -> None:
    """Copy files into a private folder, and remove other files from it."""
    sources_by_name = _by_name(sources)
    if not sources_by_name and not folder.is_dir():
        return
    files.fresh_folder(folder)
    for copy in folder.iterdir():
        if copy.name not in sources_by_name:
            files.remove(copy)
    for name, source in sources_by_name.items():
        files.replace(folder / name, files.read_source(source), mode=0o400)


def are_copied(folder: Path, sources: Iterable[str]) -> bool:
    """Return whether a folder has exactly these files with their current content."""
    sources_by_name = _by_name(sources)
    try:
        copies = {copy.name: content(copy) for copy in folder.iterdir()} if folder.is_dir() else {}
        return copies == {name: files.read_source(source) for name, source in sources_by_name.items()}
    except OSError:
        return False


def read_json(file: Path, kind: type[Kind], limit: int = 1 << 26) -> Kind | None:
    """Return the content of a JSON file; None if it is missing, damaged or not a regular file."""
    try:
        return msgspec.json.decode(files.read(file, limit=limit), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def content(file: Path | str, limit: int = 1 << 30) -> bytes:
    """Return the content of a file; empty if it is missing, too large or not a regular file."""
    try:
        return files.read(file, limit=limit)
    except OSError:
        return b""


def _by_name(sources: Iterable[str]) -> dict[str, Path]:
    return {Path(file).name: Path(file) for file in sources}
