"""Whose the folder of an experiment is, by a file in it."""

from __future__ import annotations

from pathlib import Path

from symphony import files, paths

NAME = "owner"


def write(folder: Path, owner: str) -> None:
    files.replace(folder / NAME, owner.encode())


def of(folder: Path) -> str:
    """The owner of this folder, empty when it says none."""
    try:
        return (folder / NAME).read_text()
    except OSError:
        return ""


def known() -> set[str]:
    """Every owner that has a folder."""
    return {of(folder) for folder in _folders()} - {""}


def servers(owner: str) -> set[str]:
    """The tmux servers in which this owner has made a session."""
    return {paths.server_of(folder) for folder in folders(owner)}


def folders(owner: str) -> list[Path]:
    """The folders of this owner's experiments."""
    return [folder for folder in _folders() if of(folder) == owner]


def _folders() -> list[Path]:
    return [file.parent for file in files.matching(paths.experiments(), f"*/{NAME}")]
