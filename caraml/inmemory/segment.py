"""One piece of shared memory with a name other processes of this user can open.

It is an anonymous file (memfd): it has no path, so nothing is left behind when a process is killed, and the
size of /dev/shm does not matter. Its first bytes say whether it is free and which filling it holds, so that a
reader gives it back without a message, and the name of an earlier filling opens nothing.
"""

import ctypes
import fcntl
import functools
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
from caraml.errors import SharedMemoryError

FREE, FULL, TAKEN = range(3)
DATA_START = 4096
_PREFIX = "caraml-"
_COOKIE_BYTES = 16
_header = struct.Struct("<IIQ16s")  # state, reader's pid, generation, cookie
_state = struct.Struct("<IIQ")
_MOST_MAPPED = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL  # to read beyond its end is a SIGBUS
_flock, _LOCK, _UNLOCK = fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_UN


class Segment:
    """Mapped shared memory; `capacity` bytes from DATA_START on are for data.

    The owner's `descriptor` is part of the name; `held` is the owner's note that it is being filled;
    `address` is where this process has the data.
    """

    def __init__(self, memory: mmap.mmap, descriptor: int, owner: int, cookie: bytes) -> None:
        self.map = memory
        self.address = ctypes.addressof(ctypes.c_ubyte.from_buffer(memory, DATA_START))
        self.capacity = len(memory) - DATA_START
        self.cookie = cookie
        self.descriptor = descriptor
        self.owner = owner
        self.generation = 0
        self.held = False
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def create(cls, capacity: int) -> "Segment":
        """Allocate new memory. Raises OSError where there is not enough."""
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
        """Mark the segment as full, for the reader of its name; return the generation."""
        self.generation += 1
        _state.pack_into(self.map, 0, FREE, 0, self.generation)
        _state.pack_into(self.map, 0, FULL, 0, self.generation)
        return self.generation

    def take(self, generation: int, reader: int) -> bool:
        """Give this generation to a reader, or free it (reader 0); return whether it was still full.

        One of several simultaneous callers, in any processes and threads, gets True.
        """
        with _Mapped.taking:
            _flock(self.descriptor, _LOCK)
            try:
                if _state.unpack_from(self.map) != (FULL, 0, generation):
                    return False
                _state.pack_into(self.map, 0, TAKEN if reader else FREE, reader, generation)
                return True
            finally:
                _flock(self.descriptor, _UNLOCK)

    def release(self, reader: int, generation: int) -> None:
        """Free the segment after the reader's last array is gone; in a fork of the reader do nothing."""
        if reader == os.getpid() and self.state() == (TAKEN, reader, generation):
            _state.pack_into(self.map, 0, FREE, 0, generation)

    def reclaim(self) -> None:
        """Free the segment of a reader that died."""
        _state.pack_into(self.map, 0, FREE, 0, self.generation)

    def bytes_from(self, start: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return a view of some of the data."""
        return np.ndarray((nbytes,), np.uint8, self.map, DATA_START + start)


class _Mapped:
    """The segments of other processes this one has open; the pages stay warm between messages."""

    segments: dict[tuple[int, int, bytes], Segment] = {}
    taking = threading.Lock()


def _forget() -> None:
    """Open segments again in a forked child: it shares the locks on a file with the parent that opened it."""
    _Mapped.segments = {}
    _Mapped.taking = threading.Lock()


process.after_fork(_forget)


def open_segment(owner: int, descriptor: int, cookie: bytes) -> Segment:
    """Return the segment of a name. Raises SharedMemoryError where its owner ended or is on another host."""
    key = owner, descriptor, cookie
    known = _Mapped.segments.get(key)
    if known is None:
        if len(_Mapped.segments) >= _MOST_MAPPED:
            _Mapped.segments.clear()  # arrays in use keep their own mapping
        known = _Mapped.segments[key] = _map(owner, descriptor, cookie)
    return known


def _map(owner: int, descriptor: int, cookie: bytes) -> Segment:
    path = f"/proc/{int(owner)}/fd/{int(descriptor)}"
    try:
        if not str(Path(path).readlink()).startswith(f"/memfd:{_PREFIX}{cookie.hex()}"):
            raise SharedMemoryError(f"{path} is other shared memory than the name says")
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SharedMemoryError(f"process {owner} ended, or is not on this host: {error}") from None
    try:
        status = os.fstat(file)
        if status.st_uid != os.geteuid():
            raise SharedMemoryError(f"{path} belongs to user {status.st_uid}, not to this one")
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise SharedMemoryError(f"{path} is not sealed: its owner could shrink it")
        memory = mmap.mmap(file, status.st_size)
        if memory[_header.size - _COOKIE_BYTES : _header.size] != cookie:
            raise SharedMemoryError("the memory is other shared memory than the name says")
    except SharedMemoryError:
        os.close(file)
        raise
    except (OSError, ValueError) as error:
        os.close(file)
        raise SharedMemoryError(f"{path} cannot be mapped: {error}") from None
    return Segment(memory, file, owner, cookie)


class Lease:
    """An object over the first bytes of a segment's data, which the arrays made from it keep alive.

    It dies after the last of these arrays, and then calls `on_end`: `__del__` costs a fifth of
    weakref.finalize.
    """

    __slots__ = ()
    on_end: tuple[Callable[..., object], tuple[Any, ...]]

    def __del__(self) -> None:
        call, arguments = self.on_end
        call(*arguments)


def lease(segment: Segment, nbytes: int, call: Callable[..., object], *arguments: Any) -> Any:
    """Return a Lease of `nbytes`; it makes `call(*arguments)` when the last array is gone."""
    leased = _lease_of(nbytes).from_buffer(segment.map, DATA_START)
    leased.on_end = call, arguments
    return leased


@functools.lru_cache(maxsize=64)
def _lease_of(nbytes: int) -> Any:
    """Return the ctypes type, cached because making a type is slower than making an object."""

    class OfBytes(Lease, ctypes.c_ubyte * nbytes):
        __slots__ = ("on_end",)

    return OfBytes
