"""Digests of files (content and x bit) and of sets of files."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from symphony import files

LENGTH = 32
# Nanoseconds. A file may change twice within a tick of its file system's clock, so younger files are
# always read.
MIN_AGE_NS = 2_000_000_000


def of_file(path: str, *, follow: bool = True) -> str:
    """Return thirty-two hex digits for a file: its content, and whether its owner may execute it.

    Args:
        path: Absolute path of the file.
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
    kind = b"program\0" if status.st_mode & stat.S_IXUSR else b"file\0"
    if time.time_ns() - status.st_ctime_ns < MIN_AGE_NS:
        return _of_content(path, kind)
    return _of_unchanged_file(path, stamp_of(status), kind)


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


@cache
def _of_unchanged_file(path: str, _stamp: str, kind: bytes) -> str:
    """Return the digest of a file, remembered since `up --watch` asks every two seconds."""
    return _of_content(path, kind)


def _of_content(path: str, kind: bytes) -> str:
    with files.open_regular(Path(path), follow=True) as file:
        return hashlib.file_digest(file, lambda: hashlib.sha256(kind)).hexdigest()[:LENGTH]


def _target_file(path: str) -> os.stat_result | None:
    """Return the stat of the file that a link points to; None unless it is a regular file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
