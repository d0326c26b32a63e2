"""Records which stacks use the images that this user's symphony built, and locks builds."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from symphony import files, paths

# As long as a build may take.
SECONDS = 4 * 3600.0


@contextmanager
def lock(identity: str, reference: str) -> Generator[None]:
    """Wait for other builds of this content, under whichever name, and hold them off during the block."""
    file = paths.cache() / "images" / f"{identity}.lock"
    with files.locked(file, seconds=SECONDS, what=f"the image {reference}"):
        yield


def add(reference: str, owner: str) -> None:
    """Record that a stack uses the image."""
    files.own_folder(_folder(reference))
    files.replace(_file(reference, owner), owner.encode())


def owners(reference: str) -> list[str]:
    """Return the stacks of this user that use the image, in every state store."""
    with suppress(OSError):
        return sorted(each.read_text() for each in files.matching(_folder(reference), "*.use"))
    return []


def is_known(reference: str) -> bool:
    """Return whether this user's symphony built an image of this name, and did not remove it."""
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
