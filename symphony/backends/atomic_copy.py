"""Puts a file or folder under its final name only once it is whole; copies of both backends land here."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from symphony.errors import UserError


def final_name(target: str, name: str) -> Path:
    """Where something of that name goes: into an existing folder, else where target says.

    UserError: the folder it would be in does not exist.
    """
    place = Path(target)
    if place.is_dir():
        return place / name
    if target.endswith("/") or not place.parent.is_dir():
        missing = place if target.endswith("/") else place.parent
        raise UserError("there is no such folder", where=str(missing), remedy="Make it first")
    return place


@contextmanager
def beside(final: Path) -> Generator[Path]:
    """A path in a private folder beside the final name; what the block makes there takes that name.

    UserError: a folder would take the place of a file, or a file that of a folder.
    """
    draft = final.parent / f".symphony-{os.urandom(8).hex()}"
    draft.mkdir(mode=0o700)
    try:
        yield draft / "new"
        put(draft / "new", final)
    finally:
        _remove(draft)


def put(new: Path, final: Path) -> None:
    """Rename new to final. Two folders become one; a link in the way is replaced, never followed."""
    if not _is_folder(new):
        if _is_folder(final):
            raise UserError("there is a folder of this name", where=str(final), remedy="Choose another name")
        new.replace(final)
    elif _is_folder(final):
        for entry in sorted(new.iterdir()):
            put(entry, final / entry.name)
    elif os.path.lexists(final):
        raise UserError("this is no folder", where=str(final), remedy="Choose another name")
    else:
        new.rename(final)


def stays_inside(place: Sequence[str], target: str) -> bool:
    """Whether a link at that place below the top of a copied folder leads to somewhere in that folder.

    `..` only at the beginning, so that it means the same whatever the links on the way are.
    """
    if not target or target.startswith("/") or "\0" in target:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return ups < len(place) and ".." not in parts[ups:]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove(draft: Path) -> None:
    try:
        draft.rmdir()
    except OSError:
        # A copy that failed, or a folder that became one with another.
        import shutil

        shutil.rmtree(draft, ignore_errors=True)
