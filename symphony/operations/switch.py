"""Which experiment is meant where none is named, one for each state store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from symphony import files, paths
from symphony.engine.state.file_store import StackName

_LAUNCHED = " launched"


def remember(name: StackName, *, launched: bool = False) -> None:
    """From now on this one is meant; one that was only launched, where the project here has none."""
    paths.private_folder(_file().parent)
    files.replace(_file(), f"{name}{_LAUNCHED if launched else ''}".encode())


def current() -> tuple[str, bool]:
    """Its full name, which may be gone since, or nothing; and whether a person switched to it."""
    with suppress(OSError, UnicodeDecodeError):
        text = _file().read_text().strip()
        return text.removesuffix(_LAUNCHED), not text.endswith(_LAUNCHED)
    return "", False


def forget(name: StackName) -> None:
    """It is meant no more."""
    if current()[0] == str(name):
        _file().unlink(missing_ok=True)


def _file() -> Path:
    return paths.home() / "current" / paths.store_id()
