"""Copies files and folders locally, and packs and safely unpacks them as tar archives."""

import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import IO, Any

from msgspec.structs import replace

from symphony.backends.access import Copied, OnBytes
from symphony.errors import SymphonyError, UserError
from symphony.paths import umask
from symphony.plan.names import printable

CHUNK = 1 << 20


class Damaged(SymphonyError):
    """The archive is truncated, or is not an archive."""


class CountingStream:
    """A stream that reports the number of bytes read and written."""

    def __init__(self, on_bytes: OnBytes, *, read: Any = None, write: Any = None) -> None:
        self._on_bytes, self._read, self._write = on_bytes, read, write

    def read(self, size: int) -> bytes:
        data = self._read(size)
        self._on_bytes(len(data))
        return data

    def write(self, data: bytes) -> int:
        self._write(data)
        self._on_bytes(len(data))
        return len(data)


def final_name(target: str, name: str) -> Path:
    """Return the path of a copy: target/name if target is a folder, else target itself.

    Raises:
        UserError: The parent folder of the copy does not exist.
    """
    path = Path(target)
    if path.is_dir():
        return path / name
    if target.endswith("/") or not path.parent.is_dir():
        missing = path if target.endswith("/") else path.parent
        raise UserError("no such folder to copy into", where=str(missing), remedy="Create it first")
    return path


def resolve_source(source: Path) -> Path:
    """Return the file or folder to copy, with links resolved.

    Raises:
        UserError: The source does not exist, or is neither file nor folder.
    """
    if not source.exists():
        raise UserError("no such file or folder", where=str(source), remedy="Check its path")
    if not (source.is_file() or source.is_dir()):
        raise UserError(
            "only files and folders can be copied", where=str(source), remedy="Name a file or a folder"
        )
    return source.resolve()


def pack(source: Path, stream: IO[bytes] | CountingStream) -> Copied:
    """Write a file, as `./NAME`, or a folder, as `.`, to a tar archive."""
    done = Copied()

    def accept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal done
        if why := _why_left_out(member):
            done = done.more(left_out=f"{_shown(member)}: {why}")
            return None
        done = done.more(member.isreg(), member.size)
        return member.replace(uid=0, gid=0, uname="", gname="", deep=False)

    name = "." if source.is_dir() else f"./{source.name}"
    out: Any = stream
    with tarfile.open(
        None, "w|", out, CHUNK, format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        archive.add(source, name, filter=accept)
    return done


def unpack(stream: IO[bytes] | CountingStream, final: Path) -> Copied:
    """Unpack the file or folder in a tar stream as `final`; merge it into an existing folder.

    Links that lead out of the folder, devices and pipes are left out.

    Raises:
        Damaged: The archive is truncated.
        SymphonyError: A name in the archive leads out of the folder, or the disk refuses a file.
    """
    done, links, written = Copied(), list[tarfile.TarInfo](), set[str]()
    folder, is_single = final, None
    try:
        source: Any = stream
        with tarfile.open(None, "r|", source, CHUNK) as archive:
            for member in archive:
                if is_single is None and (is_single := not member.isdir()):
                    folder, member = final.parent, member.replace(name=final.name, deep=False)
                why = _why_left_out(member, alone=is_single)
                if member.islnk() and os.path.normpath(member.linkname) not in written:
                    # tarfile would copy a symbolic link without any check.
                    why = "a hard link whose target is not in the copy"
                if why:
                    done = done.more(left_out=f"{_shown(member)}: {why}")
                elif member.issym():
                    # Extracted last, so that no file is written through a link.
                    links.append(member)
                else:
                    masked = member.replace(mode=member.mode & ~umask(), deep=False)
                    archive.extract(masked, folder, filter="data")
                    done = done.more(member.isreg(), member.size)
                    if not member.isdir():
                        written.add(os.path.normpath(member.name))
                if is_single:
                    break
            for link in links:
                archive.extract(link, folder, filter="data")
    except tarfile.ReadError as error:
        raise Damaged(f"the tar archive of the copy is damaged: {error}") from error
    except (tarfile.TarError, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise SymphonyError(
            f"the tar archive of the copy is refused: {printable(str(error), 300)}"
        ) from error
    except OSError as error:
        raise SymphonyError(
            (error.strerror or str(error)).lower(), where=str(error.filename or final)
        ) from error
    if is_single is None or (is_single and not done.files):
        raise SymphonyError(next(iter(done.left_out), "the copy is empty: its tar archive has no entries"))
    return done


def copy(source: Path, final: Path, on_bytes: OnBytes) -> Copied:
    """Copy on this machine, as an archive through a pipe.

    Raises:
        UserError: The source does not exist, or would be copied into itself.
    """
    source = resolve_source(source)
    if source.is_file() and final.exists() and final.samefile(source):
        what = "a file cannot be copied onto itself"
        raise UserError(what, where=str(source), remedy="Choose another target")
    if source.is_dir() and final.resolve().is_relative_to(source):
        what = "a folder cannot be copied into itself"
        raise UserError(what, where=str(source), remedy="Choose a target outside of the folder")
    reader, writer = os.pipe()
    with ThreadPoolExecutor(1) as pool:
        packing = pool.submit(_pack_to, source, writer)
        with open(reader, "rb") as stream:  # noqa: PTH123 : a descriptor
            try:
                done = unpack(CountingStream(on_bytes, read=stream.read), final)
            except Damaged:
                # The packing thread raises the cause.
                packing.result()
                raise
        return replace(done, left_out=(*packing.result().left_out, *done.left_out))


def _pack_to(source: Path, writer: int) -> Copied:
    with open(writer, "wb") as stream:
        return pack(source, stream)


def _why_left_out(member: tarfile.TarInfo, *, alone: bool = False) -> str:
    """Return why a member is not copied, or an empty string; tarfile's filter must accept the others."""
    if alone and (member.issym() or member.islnk()):
        # Outside of a copied folder, a link could lead to any file of the user.
        return "a single link, not a file or folder"
    if member.issym():
        link = PurePosixPath(os.path.normpath(member.name.lstrip("/")))
        return "" if _stays_inside(link, member.linkname) else "a link that leads out of the folder"
    if member.issparse():
        return "a sparse file"
    return "" if member.isreg() or member.isdir() or member.islnk() else "neither file, folder nor link"


def _stays_inside(link: PurePosixPath, target: str) -> bool:
    """Return whether the target of a link in a copied folder is inside that folder.

    `..` is allowed only at the beginning, so that other links cannot change its meaning.
    """
    if not target or target.startswith("/") or "\0" in target:
        return False
    parts = PurePosixPath(target).parts
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return ups < len(link.parts) and ".." not in parts[ups:]


def _shown(member: tarfile.TarInfo) -> str:
    return printable(member.name.removeprefix("./"), 200)
