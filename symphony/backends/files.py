"""Opens and makes regular files with care; the copies of both backends read and write through it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

CHUNK = 1 << 20


def create(path: Path, mode: int) -> IO[bytes]:
    """A new file for writing that nobody else may read before it is whole; of the mode only rwx."""
    wanted = (mode & 0o777 | 0o600) & ~mask()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, wanted), "wb")


def open_file(path: Path) -> IO[bytes] | None:
    """A regular file for reading; None for what is none, without waiting for the other end of a pipe."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    return None


@cache
def mask() -> int:
    """The mask of this process: it can only be read by setting it."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("Umask:")), 8)
    before = os.umask(0o077)
    os.umask(before)
    return before
