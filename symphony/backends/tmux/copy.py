"""Copies a file or folder on this machine, as scp over a network would; inside calls it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from symphony.backends.access import Copied
from symphony.backends.atomic_copy import beside, stays_inside
from symphony.backends.files import CHUNK, create, open_file
from symphony.errors import SymphonyError, UserError


def copy(source: Path, final: Path) -> Iterator[Copied]:
    """Make final as source is; links that lead out of the folder, devices and pipes are left out.

    UserError: there is no source, or it would be copied into itself.
    """
    if not source.exists():
        raise UserError(f"there is no such file or folder: {source}")
    if source.is_dir() and final.resolve().is_relative_to(source.resolve()):
        raise UserError("a folder cannot be copied into itself", where=str(source))
    copying = _Copying()
    with beside(final) as new:
        if source.is_dir():
            yield from copying.folder(source.resolve(), new, ())
        else:
            yield from copying.file(source.resolve(), new)
        yield copying.so_far


class _Copying:
    def __init__(self) -> None:
        self.so_far = Copied()

    def folder(self, source: Path, new: Path, place: tuple[str, ...]) -> Iterator[Copied]:
        new.mkdir(mode=0o700)
        for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
            here = (*place, entry.name)
            if entry.is_symlink():
                self._link(entry, new / entry.name, here)
            elif entry.is_dir(follow_symlinks=False):
                yield from self.folder(Path(entry.path), new / entry.name, here)
            elif entry.is_file(follow_symlinks=False):
                yield from self.file(Path(entry.path), new / entry.name)
            else:
                self._leave_out(here, "neither file, folder nor link")
        new.chmod(source.stat().st_mode & 0o777 | 0o700)

    def file(self, source: Path, new: Path) -> Iterator[Copied]:
        read = open_file(source)
        if read is None:
            raise SymphonyError("this is no file", where=str(source))
        with read, create(new, os.fstat(read.fileno()).st_mode) as written:
            while chunk := read.read(CHUNK):
                written.write(chunk)
                self.so_far = self.so_far.more(size=len(chunk))
                yield self.so_far
        self.so_far = self.so_far.more(files=1)

    def _link(self, entry: os.DirEntry[str], new: Path, place: tuple[str, ...]) -> None:
        target = str(Path(entry.path).readlink())
        if stays_inside(place, target):
            new.symlink_to(target)
        else:
            self._leave_out(place, "a link that leads out of the folder")

    def _leave_out(self, place: tuple[str, ...], why: str) -> None:
        self.so_far = self.so_far.more(left_out=f"{'/'.join(place)}: {why}")
