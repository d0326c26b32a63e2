"""Tar archives: packs what is sent into a container, and unpacks with suspicion what comes out of one.

What comes out is what a process chose to send: it lands below one new folder or not at all.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from symphony.backends.access import Copied
from symphony.backends.atomic_copy import stays_inside
from symphony.backends.files import CHUNK, create, mask, open_file
from symphony.errors import SymphonyError
from symphony.plan.names import printable

# What a header may announce as its own extension: longer ones would only fill the memory.
LONGEST_HEADER = 1 << 20
_EXTENSIONS = b"xgXLK"
_LONGEST_SHOWN = 200


class Hostile(SymphonyError):
    """The archive says something that no honest tar of one file or folder says."""


class _Header(tarfile.TarInfo):
    """A header whose sizes were looked at before they are believed."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        longest = LONGEST_HEADER if header.type in [bytes([each]) for each in _EXTENSIONS] else None
        if header.size < 0 or (longest is not None and header.size > longest):
            raise Hostile(f"the archive has a header of {header.size} bytes")
        return header


def unpack(stream: IO[bytes], new: Path) -> Iterator[Copied]:
    """Make the one file or folder in a tar stream, as the path new, which must not exist yet.

    Links that lead out of the folder, devices and pipes are left out. Hostile: names that lead out of it,
    names that come twice or go through a link. SymphonyError: the stream ends too early.
    """
    unpacking = _Unpacking(new)
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK, tarinfo=_Header) as archive:
            for member in archive:
                yield from unpacking.take(archive, member)
                # What the library remembers of members would grow with the archive.
                archive.members = []  # pyright: ignore[reportAttributeAccessIssue]
    except (tarfile.TarError, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise SymphonyError(f"the archive is damaged: {error}") from error
    unpacking.finish()
    yield unpacking.so_far


class _Unpacking:
    """One archive on its way to the disk; links and modes come last, so that nothing goes through them."""

    def __init__(self, new: Path) -> None:
        self.so_far = Copied()
        self._new = new
        self._made: set[tuple[str, ...]] = set()
        self._files: set[tuple[str, ...]] = set()
        self._links: dict[tuple[str, ...], str] = {}
        self._modes: dict[tuple[str, ...], int] = {}
        self._is_single = False

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[Copied]:
        """Make one member, or say why it is left out."""
        parts = _parts(member.name)
        if member.size < 0:
            raise Hostile(f"the archive gives {_shown(member.name)} {member.size} bytes")
        if not self._made and not self._links:
            # The first one is the top: `.` of a folder, else the one file.
            self._is_single = not member.isdir()
        if self._is_single:
            if self._made or self._links or len(parts) != 1:
                raise Hostile(f"the archive of one file holds another: {_shown(member.name)}")
            parts = ()
        self._refuse_misplaced(parts, member.name)
        if member.isdir():
            self._folder(parts, member)
        elif member.isreg() and not member.issparse():
            yield from self._file(parts, archive, member)
        elif member.islnk() and _parts(member.linkname) in self._files:
            os.link(self._at(_parts(member.linkname)), self._at(parts), follow_symlinks=False)
            self._made.add(parts)
            self._files.add(parts)
        elif member.issym() and stays_inside(parts, member.linkname):
            self._links[parts] = member.linkname
        else:
            self._leave_out(member)

    def finish(self) -> None:
        """Make the links and give folders their modes, the innermost first."""
        if () not in self._made:
            raise SymphonyError(next(iter(self.so_far.left_out), "the archive is empty"))
        for parts, target in self._links.items():
            self._at(parts).symlink_to(target)
        for parts, mode in sorted(self._modes.items(), reverse=True):
            self._at(parts).chmod(mode)

    def _refuse_misplaced(self, parts: tuple[str, ...], name: str) -> None:
        if parts in self._made or parts in self._links:
            raise Hostile(f"the archive names something twice: {_shown(name)}")
        if parts and parts[:-1] not in self._modes:
            raise Hostile(f"the archive puts something where there is no folder: {_shown(name)}")

    def _folder(self, parts: tuple[str, ...], member: tarfile.TarInfo) -> None:
        self._at(parts).mkdir(mode=0o700)
        self._made.add(parts)
        self._modes[parts] = (member.mode & 0o777 | 0o700) & ~mask()

    def _file(
        self, parts: tuple[str, ...], archive: tarfile.TarFile, member: tarfile.TarInfo
    ) -> Iterator[Copied]:
        content = archive.extractfile(member)
        assert content is not None
        with create(self._at(parts), member.mode) as file:
            self._made.add(parts)
            self._files.add(parts)
            left = member.size
            while left:
                chunk = content.read(min(CHUNK, left))
                if not chunk:
                    raise SymphonyError(f"the archive ends within {_shown(member.name)}")
                file.write(chunk)
                left -= len(chunk)
                self.so_far = self.so_far.more(size=len(chunk))
                yield self.so_far
        self.so_far = self.so_far.more(files=1)

    def _leave_out(self, member: tarfile.TarInfo) -> None:
        self.so_far = self.so_far.more(left_out=f"{_shown(member.name)}: {_kind(member)}")

    def _at(self, parts: tuple[str, ...]) -> Path:
        return self._new.joinpath(*parts)


class Packing:
    """A file or folder as the chunks of a tar archive, with a name of its own at the top."""

    def __init__(self, source: Path, name: str) -> None:
        self.so_far = Copied()
        self._source = source.resolve()
        self._name = name

    def __iter__(self) -> Iterator[bytes]:
        """Links that lead out of the folder, devices and pipes are left out."""
        if not self._source.is_dir():
            yield from self._file(self._source, self._name)
            return
        yield _header(self._name, tarfile.DIRTYPE, self._source.stat())
        yield from self._folder(self._source, ())

    def _folder(self, folder: Path, place: tuple[str, ...]) -> Iterator[bytes]:
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            here = (*place, entry.name)
            name = "/".join((self._name, *here))
            if entry.is_symlink():
                target = str(Path(entry.path).readlink())
                if stays_inside(here, target):
                    yield _header(name, tarfile.SYMTYPE, entry.stat(follow_symlinks=False), target)
                else:
                    self._leave_out(here, "a link that leads out of the folder")
            elif entry.is_dir(follow_symlinks=False):
                yield _header(name, tarfile.DIRTYPE, entry.stat(follow_symlinks=False))
                yield from self._folder(Path(entry.path), here)
            elif entry.is_file(follow_symlinks=False):
                yield from self._file(Path(entry.path), name)
            else:
                self._leave_out(here, "neither file, folder nor link")

    def _file(self, path: Path, name: str) -> Iterator[bytes]:
        """A file as it is now: what grows meanwhile is cut, what shrinks is filled up."""
        file = open_file(path)
        if file is None:
            raise SymphonyError("this is no file", where=str(path))
        with file:
            facts = os.fstat(file.fileno())
            yield _header(name, tarfile.REGTYPE, facts)
            left = facts.st_size
            while left:
                chunk = file.read(min(CHUNK, left)) or bytes(min(CHUNK, left))
                left -= len(chunk)
                self.so_far = self.so_far.more(size=len(chunk))
                yield chunk
            yield bytes(-facts.st_size % 512)
        self.so_far = self.so_far.more(files=1)

    def _leave_out(self, place: tuple[str, ...], why: str) -> None:
        self.so_far = self.so_far.more(left_out=f"{'/'.join(place)}: {why}")


def end_mark(name: str) -> bytes:
    """An empty file with which an archive ends, and the end of the archive itself."""
    header = tarfile.TarInfo(name)
    return header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024


def _header(name: str, kind: bytes, facts: os.stat_result, target: str = "") -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    header.mode, header.mtime = facts.st_mode & 0o777, int(facts.st_mtime)
    header.size = facts.st_size if kind == tarfile.REGTYPE else 0
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _parts(name: str) -> tuple[str, ...]:
    """The name below the top. Hostile: it is absolute or leads up."""
    if name.startswith("/") or "\0" in name or ".." in name.split("/"):
        raise Hostile(f"the archive names something outside of it: {_shown(name)}")
    return tuple(part for part in name.split("/") if part not in ("", "."))


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "a link that leads out of the folder"
    return "a file with holes" if member.issparse() else "neither file, folder nor link"


def _shown(name: str) -> str:
    return printable(name, _LONGEST_SHOWN)
