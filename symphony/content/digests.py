"""The digest of a file, of its content and x bit."""

from __future__ import annotations

import hashlib
import os
import stat

from symphony import files
from symphony.content.sets import LENGTH
from symphony.content.sets import changed_names as changed_names
from symphony.content.sets import of_all as of_all
from symphony.content.stat_cache import StatCache, stamp_of


def of_file(path: str, cache: StatCache, *, follow: bool = True) -> str:
    """Thirty-two hex digits for what a file is: its content, and whether its owner may execute it.

    A link to a file is that file, with follow; any other link is where it points. OSError: it cannot be read.
    """
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        target = _followed(path) if follow else None
        if target is None:
            place = os.fsencode(os.readlink(path))  # noqa: PTH115 : hot path
            return hashlib.sha256(b"link\0" + place).hexdigest()[:LENGTH]
        facts = target
    stamp = stamp_of(facts)
    known = cache.get(path, stamp)
    if isinstance(known, str):
        return known
    kind = b"program\0" if facts.st_mode & stat.S_IXUSR else b"file\0"
    with files.open_regular(path, follow=True) as file:
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(kind)).hexdigest()[:LENGTH]
    cache.put(path, stamp, digest, facts)
    return digest


def _followed(path: str) -> os.stat_result | None:
    """What a link to a file leads to; None for one to a folder, or to nothing."""
    try:
        facts = os.stat(path)  # noqa: PTH116 : hot path
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) else None
