"""Private files and folders, whatever the umask: created, replaced atomically, locked, removed."""

import atexit
import errno
import fcntl
import glob
import hashlib
import io
import os
import shutil
import stat
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from symphony import paths
from symphony.errors import SymphonyError

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# A socket's path has at most 107 bytes; this leaves room for the folder of a process and a name.
_LONGEST_FOLDER = 60
_IN_USE = "in-use"


def own_folder(path: Path) -> Path:
    """Create a folder that only this user can enter; refuse a link, and another user's folder."""
    paths.private_folder(path)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise SymphonyError(
            f"{path} is a link or a file, or belongs to another user",
            remedy="Remove it, or set another folder: SYMPHONY_HOME, XDG_CACHE_HOME or symphony:sharedFolder",
        )
    if facts.st_mode & 0o777 != 0o700:
        path.chmod(0o700)
    return path


def fresh_folder(path: Path) -> Path:
    """Create a folder like own_folder(), in place of a file or link that a process may have put there."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
    return own_folder(path)


def open_regular(path: Path | str, *, follow: bool = False) -> io.BufferedReader:
    """Open a file for reading without blocking, although a process may have replaced it with a pipe.

    Raises:
        OSError: The path does not exist, or is a pipe, a folder, a device or (unless follow) a link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | NO_FOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read(path: Path | str, *, limit: int = 1 << 20) -> bytes:
    """Return the content of a file that a process may have replaced; raise OSError beyond the limit."""
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", os.fspath(path))
    return content


def read_source(path: Path | str) -> bytes:
    """Return the content of a file that the user names, of any size; raise OSError for a pipe or folder."""
    with open_regular(path, follow=True) as file:
        return file.read()


def remove(path: Path) -> None:
    """Remove a file, link or pipe, or a folder with its content, even where folders lack permissions."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for folder, folders, _ in os.walk(path):
        for inner in (Path(folder, name) for name in folders):
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


def create(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a new file in place of whatever is at the path; a link there is removed, not followed."""
    remove(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
    except OSError as error:
        # A write does not know its file, and the user must know which disk is full.
        error.filename = str(path)
        raise


def replace(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o600) -> None:
    """Replace a file atomically; durable: also across a loss of power."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        create(draft, content, mode)
        if durable:
            _sync(draft)
        if path.is_dir() and not path.is_symlink() and paths.home() in path.parents:
            # Other threads may replace the folder at the same time: only one of them moves it away.
            aside = draft.with_name(f"{draft.name}.old")
            with suppress(FileNotFoundError):
                path.replace(aside)
            remove(aside)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def touch(path: Path) -> None:
    """Create an empty private file, or make an existing file private; replace anything else."""
    if path.is_symlink() or not path.is_file():
        remove(path)
    else:
        path.chmod(0o600)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | NO_FOLLOW, 0o600))


@contextmanager
def locked(path: Path, *, seconds: float, what: str) -> Generator[None]:
    """Hold a lock file during the block; wait for other threads and processes at most `seconds`."""
    descriptor = acquire(path, seconds=seconds, what=what)
    try:
        yield
    finally:
        os.close(descriptor)


def acquire(path: Path, *, seconds: float, what: str) -> int:
    """Lock a file and return its descriptor; closing it, or the end of the process, releases the lock.

    Raises:
        SymphonyError: Another run still holds it after `seconds`.
    """
    own_folder(path.parent)
    deadline = time.monotonic() + seconds
    while True:
        descriptor = _open_lock(path)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last owner may have removed the file; a lock on a removed file excludes no process.
            if _is_at(path, descriptor):
                return descriptor
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise SymphonyError(
                f"{what} is busy: another run holds the lock {path}",
                remedy="Try again when that run has ended",
            )
        time.sleep(0.01)


def _open_lock(path: Path) -> int:
    """Open or create a lock file, in place of a folder or a link, and also without permissions."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)
    except PermissionError:
        path.chmod(0o600)
    except OSError:
        if not path.is_symlink() and not path.is_dir():
            raise
        remove(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (facts.st_dev, facts.st_ino) == (held.st_dev, held.st_ino)


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the matching files of a folder; Path.glob raises if another run removes a file meanwhile."""
    return [folder / name for name in glob.glob(pattern, root_dir=folder)]  # noqa: PTH207


def process_folder() -> Path:
    """Return a private folder of this process, with a path short enough for sockets in it.

    It is removed when the process ends; after a kill, the next process that asks for a folder removes it.
    """
    return _process_folder(os.getpid())


@cache
def _process_folder(pid: int) -> Path:
    base = paths.home() / "processes"
    if len(os.fsencode(base)) > _LONGEST_FOLDER:
        digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:8]
        base = paths.TEMPORARY / f"symphony-{os.getuid()}-{digest}"
    own_folder(base)
    for folder in matching(base, "*"):
        _remove_if_unused(folder)
    folder = base / f"{pid}-{os.urandom(4).hex()}"
    # The lock is held until the process ends, however it ends.
    acquire(folder / _IN_USE, seconds=10, what="a new folder")
    atexit.register(_remove_process_folder, folder)
    return folder


def _remove_process_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # Fails if another process still has a folder there.


def _remove_if_unused(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder / _IN_USE, os.O_RDWR | NO_FOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
