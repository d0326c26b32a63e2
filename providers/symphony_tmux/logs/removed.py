"""Notices that the log of a process, or its folder, was removed."""

from __future__ import annotations

from pathlib import Path

from symphony import files

# What the supervisor begins a log with that takes the place of one that was removed.
_NOTE = b"[symphony: the log was removed here"


def log_trouble(log: str) -> str:
    """Return what happened to a log that is missing or was started over; nothing where it is complete."""
    try:
        with files.open_regular(log) as file:
            return "its log was removed; a new one was started" if file.read(len(_NOTE)) == _NOTE else ""
    except FileNotFoundError:
        folder = Path(log).parent
        return f"{'its log' if folder.is_dir() else folder} was removed: no log is kept"
    except OSError as error:
        return f"its log cannot be read: {error.strerror}"
