"""Digests of files (content and x bit) and of sets of files, with a cache for unchanged files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from symphony import files, paths

LENGTH = 32
# Nanoseconds. A file may change twice within a tick of its file system's clock, so younger files are not
# cached.
TOO_YOUNG = 2_000_000_000


def of_file(path: str, cache: DigestCache, *, follow: bool = True) -> str:
    """Return thirty-two hex digits for a file: its content, and whether its owner may execute it.

    Args:
        path: Absolute path of the file.
        cache: The digests of unchanged files.
        follow: Whether to read the target of a link to a file; other links are digested by target name.

    Raises:
        OSError: The file cannot be read.
    """
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        target = _target_file(path) if follow else None
        if target is None:
            return hashlib.sha256(b"link\0" + os.fsencode(Path(path).readlink())).hexdigest()[:LENGTH]
        facts = target
    stamp = stamp_of(facts)
    if (known := cache.get(path, stamp)) is not None:
        return known
    kind = b"program\0" if facts.st_mode & stat.S_IXUSR else b"file\0"
    with files.open_regular(Path(path), follow=True) as file:
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(kind)).hexdigest()[:LENGTH]
    cache.put(path, stamp, digest, facts)
    return digest


def of_all(digests: Mapping[str, str]) -> str:
    """Return thirty-two hex digits for a set of files, name -> digest, in any order."""
    whole = hashlib.sha256()
    for name in sorted(digests):
        whole.update(os.fsencode(name) + b"\0" + digests[name].encode() + b"\0")
    return whole.hexdigest()[:LENGTH]


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of the files that differ, or that only one of the sets has."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def stamp_of(facts: os.stat_result) -> str:
    """Return a string that differs if the file has changed."""
    when = f"{facts.st_mtime_ns}.{facts.st_ctime_ns}"
    return f"{facts.st_size}.{when}.{facts.st_dev}.{facts.st_ino}.{facts.st_mode}"


class DigestCache:
    """The digests of the files of one folder, kept for the next run.

    purpose and root identify the cache. It keeps the entries that the last `with` block used.
    """

    def __init__(self, purpose: str, root: Path) -> None:
        self._file = _file(purpose, root)
        self._before: dict[str, list[str]] = {}
        self._now: dict[str, list[str]] = {}
        self._oldest_young = time.time_ns() - TOO_YOUNG

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError, RecursionError):
            kept = json.loads(self._file.read_bytes())
            if isinstance(kept, dict):
                self._before = cast("dict[str, list[str]]", kept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._now != self._before:
            # Without the cache the next run is slower, nothing else.
            with suppress(OSError):
                paths.private_folder(self._file.parent)
                files.replace(self._file, json.dumps(self._now).encode())

    def get(self, path: str, stamp: str) -> str | None:
        """Return the cached digest of a file with this stamp; None if there is none."""
        entry: object = self._now.get(path) or self._before.get(path)
        match entry:
            case [known_stamp, str() as digest] if known_stamp == stamp:
                self._now[path] = [stamp, digest]
                return digest
            case _:
                return None

    def put(self, path: str, stamp: str, digest: str, facts: os.stat_result) -> None:
        """Cache the digest of a file whose stat was taken before it was read."""
        if facts.st_ctime_ns < self._oldest_young:
            self._now[path] = [stamp, digest]


def forget(purpose: str, root: Path) -> None:
    """Remove a cache."""
    with suppress(OSError):
        _file(purpose, root).unlink()


def _target_file(path: str) -> os.stat_result | None:
    """Return the stat of the file that a link points to; None unless it is a regular file."""
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) else None


def _file(purpose: str, root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return paths.home() / "digests" / f"{purpose}-{name}.json"
