"""Segments of shared memory that other processes of this user can open.

A segment is an anonymous file (memfd): it has no path, so nothing stays behind when a process is killed, and
the size of /dev/shm does not matter. A message names a segment by its owner's process id, the owner's
descriptor, a cookie and a generation. The header of the segment holds its state and its generation, so that
a reader can free it without sending a message, and `take` can refuse an earlier generation.
"""

import fcntl
import mmap
import os
import secrets
import struct
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from caraml import process
from caraml.codec.arrays import Array
from caraml.errors import SharedMemoryError

FREE, FULL, TAKEN = range(3)
DATA_START = 4096
_PREFIX = "caraml-"
_COOKIE_BYTES = 16
_header = struct.Struct("<IIQ16s")  # state, reader's pid, generation, cookie
_state = struct.Struct("<IIQ")
_MAX_MAPPED = 64
# Without them an owner could shrink its segment, and reading it would be a SIGBUS.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_flock, _LOCK, _UNLOCK = fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_UN


class Segment:
    """Mapped shared memory, with `capacity` bytes of data from DATA_START on, at `address` in this process.

    `descriptor` is this process's own; messages contain the owner's. `held` is True while the owner fills it.
    """

    def __init__(self, memory: mmap.mmap, descriptor: int, owner: int, cookie: bytes) -> None:
        self.map = memory
        self.address = self.bytes_from(0, 1).ctypes.data
        self.capacity = len(memory) - DATA_START
        self.cookie = cookie
        self.descriptor = descriptor
        self.owner = owner
        self.generation = 0
        self.held = False
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def create(cls, capacity: int) -> "Segment":
        """Allocate a segment. Raises OSError if there is not enough memory."""
        size = DATA_START + -(-capacity // mmap.PAGESIZE) * mmap.PAGESIZE
        cookie = secrets.token_bytes(_COOKIE_BYTES)
        descriptor = os.memfd_create(_PREFIX + cookie.hex(), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(descriptor, 0, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            memory = mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        memory[: _header.size] = _header.pack(FREE, 0, 0, cookie)
        return cls(memory, descriptor, os.getpid(), cookie)

    def state(self) -> tuple[int, int, int]:
        """Return FREE, FULL or TAKEN, the reader's process id, and the generation."""
        state, reader, generation = _state.unpack_from(self.map)
        return state, reader, generation

    def fill(self) -> int:
        """Mark the segment as full, and return the generation."""
        self.generation += 1
        _state.pack_into(self.map, 0, FREE, 0, self.generation)
        _state.pack_into(self.map, 0, FULL, 0, self.generation)
        return self.generation

    def take(self, generation: int, reader: int) -> bool:
        """Give a generation to a reader, or free it (reader 0); return whether it was still full.

        If several callers do so at once, in any process and thread, one gets True.
        """
        with _Mapped.take_lock:
            _flock(self.descriptor, _LOCK)
            try:
                if _state.unpack_from(self.map) != (FULL, 0, generation):
                    return False
                _state.pack_into(self.map, 0, TAKEN if reader else FREE, reader, generation)
                return True
            finally:
                _flock(self.descriptor, _UNLOCK)

    def release(self, reader: int, generation: int) -> None:
        """Free the segment after the reader's last array is gone, unless this is a fork of the reader."""
        if reader == os.getpid() and self.state() == (TAKEN, reader, generation):
            _state.pack_into(self.map, 0, FREE, 0, generation)

    def reclaim(self) -> None:
        """Free the segment of a reader that died."""
        _state.pack_into(self.map, 0, FREE, 0, self.generation)

    def bytes_from(self, start: int, nbytes: int) -> Array:
        """Return a view of a span of the data."""
        return np.ndarray((nbytes,), np.uint8, self.map, DATA_START + start)


class _Mapped:
    """The open segments of other processes, cached so that their pages stay mapped between messages."""

    segments: dict[tuple[int, int, bytes], Segment] = {}
    take_lock = threading.Lock()


def _forget() -> None:
    """Drop the open segments in a forked child, which would share their file locks with the parent."""
    _Mapped.segments = {}
    _Mapped.take_lock = threading.Lock()


process.after_fork(_forget)


def open_segment(owner: int, descriptor: int, cookie: bytes) -> Segment:
    """Return the segment that a message names. Raises SharedMemoryError if it cannot be opened."""
    key = owner, descriptor, cookie
    segment = _Mapped.segments.get(key)
    if segment is None:
        if len(_Mapped.segments) >= _MAX_MAPPED:
            _Mapped.segments.clear()  # arrays keep their mappings
        segment = _Mapped.segments[key] = _map(owner, descriptor, cookie)
    return segment


def _map(owner: int, descriptor: int, cookie: bytes) -> Segment:
    path = f"/proc/{int(owner)}/fd/{int(descriptor)}"
    try:
        if not str(Path(path).readlink()).startswith(f"/memfd:{_PREFIX}{cookie.hex()}"):
            raise SharedMemoryError(
                f"{path} is no longer the shared memory that the message names: its owner has closed it"
            )
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except SharedMemoryError:
        raise
    except OSError as error:
        raise SharedMemoryError(
            f"process {owner}, which owns this memory, ended, or has another user or host: {error}"
        ) from None
    try:
        status = os.fstat(file)
        if status.st_uid != os.geteuid():  # reached by root: for others os.open fails
            raise SharedMemoryError(
                f"process {owner} runs as another user (uid {status.st_uid}), whose shared memory is not"
                " read; run both programs as the same user"
            )
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise SharedMemoryError(
                f"{path} is not sealed, so its owner could shrink it; use a SharedPool to share it"
            )
        memory = mmap.mmap(file, status.st_size)
        if memory[_header.size - _COOKIE_BYTES : _header.size] != cookie:
            raise SharedMemoryError(
                "the shared memory that the message names no longer exists: the message was read or"
                " forgotten before, or the SharedPool of its sender is gone"
            )
    except SharedMemoryError:
        os.close(file)
        raise
    except (OSError, ValueError) as error:
        os.close(file)
        raise SharedMemoryError(f"the shared memory {path} cannot be mapped: {error}") from None
    return Segment(memory, file, owner, cookie)


def lease(segment: Segment, nbytes: int, call: Callable[..., object], *arguments: Any) -> Array:
    """Return the first bytes of a segment; `call(*arguments)` runs when no array refers to them any more."""
    memory = segment.bytes_from(0, nbytes)
    weakref.finalize(memory, call, *arguments).atexit = False
    return memory
