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
from typing import Self, cast

from symphony import files, paths

LENGTH = 32
# Nanoseconds. A file may change twice within a tick of its file system's clock, so younger files are not
# cached.
MIN_AGE_NS = 2_000_000_000


def of_file(path: str, cache: DigestCache, *, follow: bool = True) -> str:
    """Return thirty-two hex digits for a file: its content, and whether its owner may execute it.

    Args:
        path: Absolute path of the file.
        cache: The digests of unchanged files.
        follow: Whether to read the target of a link to a file; other links are digested by target name.

    Raises:
        OSError: The file cannot be read.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        target = _target_file(path) if follow else None
        if target is None:
            return hashlib.sha256(b"link\0" + os.fsencode(Path(path).readlink())).hexdigest()[:LENGTH]
        status = target
    stamp = stamp_of(status)
    if (digest := cache.get(path, stamp)) is not None:
        return digest
    kind = b"program\0" if status.st_mode & stat.S_IXUSR else b"file\0"
    with files.open_regular(Path(path), follow=True) as file:
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(kind)).hexdigest()[:LENGTH]
    cache.put(path, stamp, digest, status)
    return digest


def of_all(digests: Mapping[str, str]) -> str:
    """Return thirty-two hex digits for a set of files, name -> digest, in any order."""
    hasher = hashlib.sha256()
    for name in sorted(digests):
        hasher.update(os.fsencode(name) + b"\0" + digests[name].encode() + b"\0")
    return hasher.hexdigest()[:LENGTH]


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of the files that differ, or that only one of the sets has."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def stamp_of(status: os.stat_result) -> str:
    """Return a string that differs if the file has changed."""
    times = f"{status.st_mtime_ns}.{status.st_ctime_ns}"
    return f"{status.st_size}.{times}.{status.st_dev}.{status.st_ino}.{status.st_mode}"


class DigestCache:
    """The digests of the files of one folder, kept for the next run.

    purpose and root identify the cache, whose file is in symphony's own folder. It keeps the entries that
    the last `with` block used.
    """

    def __init__(self, purpose: str, root: Path) -> None:
        self._file = _file(purpose, root)
        self._loaded: dict[str, list[str]] = {}
        self._used: dict[str, list[str]] = {}
        self._cacheable_before = time.time_ns() - MIN_AGE_NS

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(self._file.read_bytes())
            if isinstance(content, dict):
                self._loaded = cast("dict[str, list[str]]", content)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._used != self._loaded:
            # Without the cache the next run is slower, nothing else.
            with suppress(OSError):
                paths.private_folder(self._file.parent)
                files.replace(self._file, json.dumps(self._used).encode())

    def get(self, path: str, stamp: str) -> str | None:
        """Return the cached digest of a file with this stamp; None if there is none."""
        entry: object = self._used.get(path) or self._loaded.get(path)
        match entry:
            case [known_stamp, str() as digest] if known_stamp == stamp:
                self._used[path] = [stamp, digest]
                return digest
            case _:
                return None

    def put(self, path: str, stamp: str, digest: str, status: os.stat_result) -> None:
        """Cache the digest of a file whose stat was taken before it was read."""
        if status.st_ctime_ns < self._cacheable_before:
            self._used[path] = [stamp, digest]


def forget(purpose: str, root: Path) -> None:
    """Remove a cache."""
    with suppress(OSError):
        _file(purpose, root).unlink()


def _target_file(path: str) -> os.stat_result | None:
    """Return the stat of the file that a link points to; None unless it is a regular file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _file(purpose: str, root: Path) -> Path:
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    return paths.home() / "digests" / f"{purpose}-{name}.json"
