"""One run at a time changes an experiment; the CRUD modules take their turn before the first change.

The engine's stack lock ends with the engine; its provider may live a little longer and must not meet
the next one.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from symphony import files, paths

SECONDS = 20.0
_held: dict[Path, int] = {}
_guard = threading.Lock()


def take(server: str, session: str) -> None:
    """Wait until this process alone may change the experiment; it may until it ends."""
    file = _file(server, session)
    with _guard:
        if file not in _held:
            _held[file] = files.acquire(file, seconds=SECONDS, what=f"experiment {session}")


def give_back(server: str, session: str) -> None:
    """Remove the lock of a deleted experiment."""
    file = _file(server, session)
    with _guard:
        descriptor = _held.pop(file, None)
        if descriptor is not None:
            file.unlink(missing_ok=True)
            os.close(descriptor)


def _file(server: str, session: str) -> Path:
    return paths.home() / "tmux" / f"{server}.{session}.turn"
