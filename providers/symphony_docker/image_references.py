"""Records which stacks use an image that this user has built, and locks builds.

A stack is identified by its owner id (paths.owner_of).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from symphony import files, paths

# How long to wait for the lock: the longest build.
_LOCK_SECONDS = 4 * 3600.0


@contextmanager
def lock(identity: str, reference: str) -> Generator[None]:
    """Hold the lock for builds of an image with this content, whatever its name."""
    file = paths.cache() / "images" / f"{identity}.lock"
    with files.locked(file, seconds=_LOCK_SECONDS, what=f"the image {reference}"):
        yield


def add(reference: str, owner: str) -> None:
    """Record that a stack uses the image."""
    files.own_folder(_folder(reference))
    files.replace(_file(reference, owner), owner.encode())


def owners(reference: str) -> list[str]:
    """Return the stacks of this user that use the image, of all state stores."""
    with suppress(OSError):
        return sorted(file.read_text() for file in files.matching(_folder(reference), "*.use"))
    return []


def is_known(reference: str) -> bool:
    """Return whether this user has built an image of this name, and not removed it."""
    return _folder(reference).is_dir()


def drop(reference: str, owner: str) -> bool:
    """Record that a stack no longer uses the image; return whether no stack does."""
    _file(reference, owner).unlink(missing_ok=True)
    return not files.matching(_folder(reference), "*.use")


def forget(reference: str) -> None:
    """Remove the record of an image that was removed."""
    shutil.rmtree(_folder(reference), ignore_errors=True)


def _file(reference: str, owner: str) -> Path:
    return _folder(reference) / f"{hashlib.sha256(owner.encode()).hexdigest()[:16]}.use"


def _folder(reference: str) -> Path:
    return paths.home() / "images" / hashlib.sha256(reference.encode()).hexdigest()[:16]
