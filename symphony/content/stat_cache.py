"""What was found out about files and folders, for as long as size, times, mode and inode stay the same."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from symphony import files, paths

# A file may change twice within one tick of its file system's clock: what is younger than this, in
# nanoseconds, is looked at again.
TOO_YOUNG = 2_000_000_000


def stamp_of(facts: os.stat_result) -> str:
    """What is another one when a file or folder has changed."""
    when = f"{facts.st_mtime_ns}.{facts.st_ctime_ns}"
    return f"{facts.st_size}.{when}.{facts.st_dev}.{facts.st_ino}.{facts.st_mode}"


class StatCache:
    """Values by the absolute path that they are about; while the block runs, and kept for the next time.

    purpose, root: there is one of each kind and folder, which holds what the last block with it asked for.
    """

    def __init__(self, purpose: str, root: Path) -> None:
        self._file = _file(purpose, root)
        self._before: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        self._oldest_young = time.time_ns() - TOO_YOUNG

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError, RecursionError):
            kept = json.loads(files.read(self._file, limit=1 << 28))
            if isinstance(kept, dict):
                self._before = cast("dict[str, Any]", kept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._now != self._before:
            # A cache that cannot be written costs time, and nothing else.
            with suppress(OSError):
                paths.private_folder(self._file.parent)
                files.replace(self._file, json.dumps(self._now).encode())

    def get(self, path: str, stamp: str) -> Any | None:
        """What was found out about a path that has this stamp; None where that is not known."""
        entry = self._now.get(path) or self._before.get(path)
        if not isinstance(entry, list) or cast("list[Any]", entry)[:1] != [stamp]:
            return None
        self._now[path] = entry
        return cast("list[Any]", entry)[1]

    def put(self, path: str, stamp: str, value: Any, facts: os.stat_result) -> None:
        """Keep what was found out after the facts were read."""
        if facts.st_ctime_ns < self._oldest_young:
            self._now[path] = [stamp, value]


def forget(purpose: str, root: Path) -> None:
    """Remove what was kept for the next time."""
    with suppress(OSError):
        _file(purpose, root).unlink()


def _file(purpose: str, root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return paths.home() / "digests" / f"{purpose}-{name}.json"
