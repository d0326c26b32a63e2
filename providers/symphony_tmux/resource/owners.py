"""Whose the folder of an experiment is, by a file in it."""

from __future__ import annotations

from pathlib import Path

from symphony import files, paths
from symphony_tmux import names

NAME = "owner"


def write(folder: Path, owner: str) -> None:
    files.replace(folder / NAME, owner.encode())


def of(folder: Path) -> str:
    """Return the owner of this folder; empty where the file that says so is missing or damaged."""
    try:
        owner = files.read(folder / NAME, limit=1 << 12).decode()
    except (OSError, ValueError):
        return ""
    return owner if names.is_owner(owner) else ""


def claim(folder: Path, owner: str) -> None:
    """Write the owner of a folder again where the file that says so is missing or damaged."""
    if folder.is_dir() and not folder.is_symlink() and not of(folder):
        write(files.own_folder(folder), owner)


def known() -> set[str]:
    """Return every owner that has a folder."""
    return {of(folder) for folder in all_folders()} - {""}


def servers(owner: str) -> set[str]:
    """Return the tmux servers in which this owner has a session."""
    return {paths.server_of(folder) for folder in folders(owner)}


def folders(owner: str) -> list[Path]:
    """Return the folders of this owner's experiments."""
    return [folder for folder in all_folders() if of(folder) == owner]


def all_folders() -> list[Path]:
    """Return the folders of all experiments, also of those whose owner is not known."""
    return [file.parent for file in files.matching(paths.experiments(), f"*/{NAME}")]
