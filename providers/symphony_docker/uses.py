"""Who on this machine uses an image that we built, and one builder of it at a time."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from symphony import files, paths

# A build of hours is one that nobody waits for.
SECONDS = 4 * 3600.0


@contextmanager
def lock(identity: str, reference: str) -> Generator[None]:
    """Whoever else builds an image of this content, by whichever name, has done so when the block begins."""
    file = paths.cache() / "images" / f"{identity}.lock"
    with files.locked(file, seconds=SECONDS, what=f"the image {reference}"):
        yield


def add(reference: str, owner: str) -> None:
    """From now on a stack uses it."""
    files.own_folder(_folder(reference))
    files.replace(_file(reference, owner), owner.encode())


def owners(reference: str) -> list[str]:
    """The stacks of this user that use it, of whichever state."""
    with suppress(OSError):
        return sorted(each.read_text() for each in files.matching(_folder(reference), "*.use"))
    return []


def drop(reference: str, owner: str) -> bool:
    """A stack uses it no more; whether nobody does."""
    _file(reference, owner).unlink(missing_ok=True)
    return not files.matching(_folder(reference), "*.use")


def forget(reference: str) -> None:
    """The image is gone."""
    shutil.rmtree(_folder(reference), ignore_errors=True)


def _file(reference: str, owner: str) -> Path:
    return _folder(reference) / f"{hashlib.sha256(owner.encode()).hexdigest()[:16]}.use"


def _folder(reference: str) -> Path:
    return paths.home() / "images" / hashlib.sha256(reference.encode()).hexdigest()[:16]
