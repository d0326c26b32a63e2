"""SharedPool: values handed from process to process of one host through reused shared memory.

>>> import numpy
>>> pool = SharedPool()
>>> name = pool.put({"frame": numpy.zeros((512, 512)), "step": 3})
>>> with get(name) as value:
...     value["frame"].shape, value["step"]
((512, 512), 3)

In place, nothing is copied at all: write into the buffer, then put it.

>>> buffer = pool.empty((512, 512), "f8")
>>> buffer[:] = 1
>>> with get(pool.put(buffer)) as array:
...     float(array.sum())
262144.0

**Promise.** A name (bytes, for any socket) is for one `get`: the first one; every other raises, also when the
memory is in use again. Its memory is reused when the last array made from it is gone in the process that got
it, or when that process died. The memory of a name that is never got stays in use: `forget` gives it back.
Values under 64 KiB, and whatever finds no room (`max_bytes`, or no memory), are inside the name itself: the
same to the reader, only slower. The owner's memory goes with its process; nothing is ever left. Names open
only memory of this user's own processes that a pool made, and that cannot shrink while it is read. Any
thread may use a pool.
"""

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from caraml import process
from caraml.codec import Decoder, Encoder
from caraml.codec.arrays import OUT_OF_BAND
from caraml.codec.parts import JOINED, Buffer, Parts, join, size, split, view
from caraml.errors import MalformedMessageError, SharedMemoryError
from caraml.inmemory.segment import FREE, TAKEN, Segment, lease, open_segment
from caraml.limits import MAX_PARTS, Limits

MAX_BYTES = 1 << 30
_ALIGNMENT = 64
_SMALLEST = 1 << 16
_LIMITS = Limits(message_bytes=1 << 40)
_SHARED = b"\xca\x07"
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class _Name(msgspec.Struct, array_like=True):
    """The fields of a name: the owner of the memory, its generation, the first part of the message, and where
    the others lie.
    """

    owner: int
    descriptor: int
    cookie: bytes
    generation: int
    head: bytes
    parts: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=MAX_PARTS)]


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Name).decode
_decoder = Decoder(_LIMITS)


_pools: "weakref.WeakSet[SharedPool]" = weakref.WeakSet()


class SharedPool:
    """Segments of this process, each free, being filled, or waiting for its reader; for any thread.

    `max_bytes` bounds all segments together. `inline` counts the values that found no room.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.inline = 0
        self._encoder = Encoder(_LIMITS)
        self._start_empty()
        _pools.add(self)

    def _start_empty(self) -> None:
        """Forget all segments: at first, and after a fork, where they are the parent's."""
        self._taking = threading.Lock()
        self._segments: list[Segment] = []
        self._buffers: dict[int, tuple[Segment, int]] = {}

    @property
    def nbytes(self) -> int:
        """Return the bytes of shared memory that the pool has."""
        return sum(segment.capacity for segment in self._segments)

    def put(self, value: object) -> bytes:
        """Make a value available to one `get` in a process of this user on this host. Raises EncodeError."""
        parts = self._encoder.encode(value)
        return self.put_parts(parts if isinstance(parts, Parts) else [parts])

    def put_parts(self, parts: Sequence[Buffer]) -> bytes:
        """Put an encoded message."""
        head, *others = parts
        if not others:
            return join(parts)
        in_place = self._in_place(others)
        if in_place is not None:
            segment, where = in_place, [(0, size(others[0]))]
        else:
            segment, where = self._copy(others)
        if segment is None:
            self.inline += 1
            return join(parts)
        return _filled(segment, bytes(view(head)), where)

    def forget(self, name: bytes) -> bool:
        """Give back the memory of a name of this pool; return False when it was got, or needs none.

        Raises MalformedMessageError.
        """
        if name[:2] == JOINED:
            return False
        parsed = _parse(name)
        return any(
            segment.cookie == parsed.cookie and segment.take(parsed.generation, 0)
            for segment in list(self._segments)
        )

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Return an array in shared memory: fill it, `put` it once (no copy), and leave it alone after that.

        Plain memory where there is no room: `put` works the same.
        """
        plain_dtype = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = plain_dtype.itemsize
        for length in sizes:
            nbytes *= length
        segment = self._take(nbytes) if nbytes >= OUT_OF_BAND else None
        if segment is None:
            return np.empty(sizes, plain_dtype)
        buffer = segment, nbytes
        self._buffers[segment.address] = buffer
        return np.ndarray(
            sizes, plain_dtype, lease(segment, nbytes, self._buffer_gone, segment.address, buffer)
        )

    def _buffer_gone(self, address: int, buffer: tuple[Segment, int]) -> None:
        """Free the segment of a buffer that was never put.

        A buffer that was put, and is only now let go, must not free the next one at the same address.
        """
        if self._buffers.get(address) is buffer:
            del self._buffers[address]
            buffer[0].held = False

    def _in_place(self, parts: Sequence[Buffer]) -> Segment | None:
        if len(parts) != 1 or not isinstance(parts[0], (np.ndarray, memoryview)):
            return None
        address = np.frombuffer(parts[0], np.uint8).ctypes.data  # pyright: ignore[reportArgumentType]
        segment, nbytes = self._buffers.get(address, (None, 0))
        if segment is None or nbytes != parts[0].nbytes:
            return None
        return segment if self._buffers.pop(address, None) else None

    def _copy(self, parts: Sequence[Buffer]) -> tuple[Segment | None, list[tuple[int, int]]]:
        where: list[tuple[int, int]] = []
        end = 0
        for part in parts:
            end += -end % _ALIGNMENT
            where.append((end, size(part)))
            end += size(part)
        segment = self._take(end)
        if segment is not None:
            for (start, nbytes), part in zip(where, parts, strict=True):
                np.copyto(segment.bytes_from(start, nbytes), np.frombuffer(view(part), np.uint8))
        return segment, where

    def _take(self, nbytes: int) -> Segment | None:
        """Return the smallest free segment that is large enough (at most four times), a new one, or None."""
        wanted = max(_SMALLEST, nbytes)
        with self._taking:
            chosen: Segment | None = None
            for segment in self._segments:
                capacity = segment.capacity
                if (
                    wanted <= capacity <= 4 * wanted
                    and (chosen is None or capacity < chosen.capacity)
                    and not segment.held
                    and _is_free(segment)
                ):
                    chosen = segment
            if chosen is None:
                chosen = self._create(wanted)
            if chosen is not None:
                chosen.held = True
            return chosen

    def _create(self, nbytes: int) -> Segment | None:
        for spare in [segment for segment in self._segments if not segment.held and _is_free(segment)]:
            if self.nbytes + nbytes <= self.max_bytes:
                break
            self._segments.remove(spare)
        if self.nbytes + nbytes > self.max_bytes:
            return None
        try:
            segment = Segment.create(nbytes)
        except OSError:
            return None
        self._segments.append(segment)
        return segment


class Shared:
    """A value that may lie in shared memory: `data`, until `delete()`. A context manager that gives the
    value.

    `delete` only lets go here: arrays taken from `data` stay good, and keep the memory from being reused.
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self.deleted = False

    def delete(self) -> None:
        """Let go of the value."""
        self.data = None
        self.deleted = True

    def __enter__(self) -> Any:
        return self.data

    def __exit__(self, *_: object) -> None:
        self.delete()


def get(name: bytes, raw: bytes | None = None) -> Shared:
    """Return the value of a name, once; where the message is marked `raw`, its one part as it is.

    Raises SharedMemoryError, MalformedMessageError.
    """
    if name[:2] == JOINED:
        first, *others = split(name)
        return _decoded(bytes(first), [memoryview(bytearray(part)) for part in others], raw)
    parsed = _parse(name)
    segment = open_segment(parsed.owner, parsed.descriptor, parsed.cookie)
    capacity, generation = segment.capacity, parsed.generation
    for start, nbytes in parsed.parts:
        if start < 0 or nbytes < 0 or start + nbytes > capacity:
            raise MalformedMessageError("the name points beyond the end of its shared memory")
    reader = os.getpid()
    if not segment.take(generation, reader):
        raise SharedMemoryError(
            "the name was used already: its memory belongs to another value, or to its reader"
        )
    whole = memoryview(lease(segment, capacity, segment.release, reader, generation)).cast("B")
    parts = [whole[start : start + nbytes] for start, nbytes in parsed.parts]
    return _decoded(parsed.head, parts, raw)


def _filled(segment: Segment, head: bytes, where: list[tuple[int, int]]) -> bytes:
    """Release a segment that is filled, and return its name."""
    name = _Name(segment.owner, segment.descriptor, segment.cookie, segment.fill(), head, where)
    segment.held = False
    return _SHARED + _pack(name)


def _parse(name: bytes) -> _Name:
    if name[:2] != _SHARED:
        raise MalformedMessageError("the value is not the name of shared memory")
    try:
        return _unpack(memoryview(name)[2:])
    except msgspec.MsgspecError as error:
        raise MalformedMessageError(f"the value is not the name of shared memory: {error}") from None


def _decoded(head: bytes, parts: list[memoryview], raw: bytes | None) -> Shared:
    return Shared(parts[0] if parts and head == raw else _decoder.decode(head, parts))


def _is_free(segment: Segment) -> bool:
    state, reader, _ = segment.state()
    if state == TAKEN and not _alive(reader):
        segment.reclaim()
        return True
    return state == FREE


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
        return status.rpartition(b")")[2].split()[0] != b"Z"  # a zombie reads nothing more
    except OSError:
        return False


def _after_fork() -> None:
    for pool in list(_pools):
        pool._start_empty()  # pyright: ignore[reportPrivateUsage]


process.after_fork(_after_fork)
