"""Which experiment is meant where none is named, one for each state store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from symphony import files, paths
from symphony.engine.state.file_store import StackName


def remember(name: StackName) -> None:
    """From now on this one is meant."""
    paths.private_folder(_file().parent)
    files.replace(_file(), str(name).encode())


def current() -> str:
    """The full name of the stack that was switched to; empty when none was. It may be gone since."""
    with suppress(OSError, UnicodeDecodeError):
        return _file().read_text().strip()
    return ""


def forget(name: StackName) -> None:
    """It is meant no more."""
    if current() == str(name):
        _file().unlink(missing_ok=True)


def _file() -> Path:
    return paths.home() / "current" / paths.store_id()
