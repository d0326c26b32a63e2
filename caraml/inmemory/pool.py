"""SharedPool: passes values between processes of one host through reused shared memory.

>>> import numpy
>>> pool = SharedPool()
>>> name = pool.put({"frame": numpy.zeros((512, 512)), "step": 3})
>>> with get(name) as value:
...     value["frame"].shape, value["step"]
((512, 512), 3)

A value that is written into a buffer of the pool is not copied at all:

>>> buffer = pool.empty((512, 512), "f8")
>>> buffer[:] = 1
>>> with get(pool.put(buffer)) as array:
...     float(array.sum())
262144.0

**Guarantee.** A name (bytes, to send over any socket) is good for one `get`; later ones raise, also when the
memory holds another value by then. The memory is reused when the reader has dropped its last array, or
has died. If a name is never read, `forget` frees its memory. Values without arrays of 64 KiB or more, such as
a long str or bytes, and those that do not fit into `max_bytes` or into memory, are in the name itself: that
is slower, and such a name can be read again.
The memory of a pool ends with its process. Names open only memory that a pool of this user created and that
cannot shrink. Any thread may use a pool.
"""

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from caraml import process
from caraml.codec import Decoder, Encoder
from caraml.codec.arrays import OUT_OF_BAND, Array
from caraml.codec.parts import JOINED, Buffer, Parts, join, size, split, view
from caraml.errors import MalformedMessageError, MessageTooLargeError, SharedMemoryError
from caraml.inmemory.segment import FREE, TAKEN, Segment, lease, open_segment
from caraml.limits import MAX_PARTS, Limits

MAX_BYTES = 1 << 30
_ALIGNMENT = 64
_SMALLEST = 1 << 16
_LIMITS = Limits(message_bytes=1 << 40)
_SHARED = b"\xca\x07"


class _Name(msgspec.Struct, array_like=True):
    """The fields of a name: the segment and its generation, the first part, and the spans of the others."""

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
    """Shared memory of this process, of at most `max_bytes`; `inline` counts the values that did not fit."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.inline = 0
        self._encoder = Encoder()
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        """Forget all segments: after a fork they are the parent's."""
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._buffers: dict[int, tuple[Segment, int]] = {}

    @property
    def nbytes(self) -> int:
        """Return the bytes of shared memory, also of that which is free to be reused."""
        return sum(segment.capacity for segment in self._segments)

    def put(self, value: object) -> bytes:
        """Share a value, and return the name for one `get`. Raises EncodeError (MessageTooLargeError)."""
        parts = self._encoder.encode(value)
        return self.put_parts(parts if isinstance(parts, Parts) else [parts])

    def put_parts(self, parts: Sequence[Buffer]) -> bytes:
        """Share the parts of an encoded message, and return the name."""
        if len(parts) > MAX_PARTS:
            raise MessageTooLargeError(
                f"a value has {len(parts)} parts; at most {MAX_PARTS} can be put into shared memory"
            )
        head, *others = parts
        if not others:
            return join(parts)
        own_segment = self._segment_of(others)
        if own_segment is not None:
            segment, spans = own_segment, [(0, size(others[0]))]
        else:
            segment, spans = self._copy_in(others)
        if segment is None:
            self.inline += 1
            return join(parts)
        return _publish(segment, bytes(view(head)), spans)

    def forget(self, name: bytes) -> bool:
        """Free the memory of an unread name of this pool; return False if it was read or has none here.

        Raises MalformedMessageError.
        """
        if name[:2] == JOINED:
            return False
        fields = _parse_name(name)
        return any(
            segment.cookie == fields.cookie and segment.take(fields.generation, 0)
            for segment in list(self._segments)
        )

    def empty(self, shape: int | np.integer[Any] | tuple[int, ...], dtype: Any) -> Array:
        """Return an uninitialized array in shared memory, for one `put` that does not copy it.

        Do not change the array after the `put`. Below 64 KiB or without room, it is an array in plain memory.
        """
        plain_dtype = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        nbytes = plain_dtype.itemsize
        for length in sizes:
            nbytes *= length
        segment = self._reserve(nbytes) if nbytes >= OUT_OF_BAND else None
        if segment is None:
            return np.empty(sizes, plain_dtype)
        buffer = segment, nbytes
        self._buffers[segment.address] = buffer
        memory = lease(segment, nbytes, self._release_buffer, segment.address, buffer)
        return np.ndarray(sizes, plain_dtype, memory)  # pyright: ignore[reportArgumentType]

    def _release_buffer(self, address: int, buffer: tuple[Segment, int]) -> None:
        """Free the segment of a buffer that was dropped without a `put`.

        After a `put`, the buffer at this address may be another one.
        """
        if self._buffers.get(address) is buffer:
            del self._buffers[address]
            buffer[0].held = False

    def _segment_of(self, parts: Sequence[Buffer]) -> Segment | None:
        if len(parts) != 1 or not isinstance(parts[0], (np.ndarray, memoryview)):
            return None
        address = np.frombuffer(parts[0], np.uint8).ctypes.data  # pyright: ignore[reportArgumentType]
        segment, nbytes = self._buffers.get(address, (None, 0))
        if segment is None or nbytes != parts[0].nbytes:
            return None
        return segment if self._buffers.pop(address, None) else None

    def _copy_in(self, parts: Sequence[Buffer]) -> tuple[Segment | None, list[tuple[int, int]]]:
        spans: list[tuple[int, int]] = []
        end = 0
        for part in parts:
            end += -end % _ALIGNMENT
            spans.append((end, size(part)))
            end += size(part)
        segment = self._reserve(end)
        if segment is not None:
            for (start, nbytes), part in zip(spans, parts, strict=True):
                np.copyto(segment.bytes_from(start, nbytes), np.frombuffer(view(part), np.uint8))
        return segment, spans

    def _reserve(self, nbytes: int) -> Segment | None:
        """Reserve the smallest free segment that fits (of at most four times the size), or a new one."""
        wanted = max(_SMALLEST, nbytes)
        with self._lock:
            best: Segment | None = None
            for segment in self._segments:
                capacity = segment.capacity
                if (
                    wanted <= capacity <= 4 * wanted
                    and (best is None or capacity < best.capacity)
                    and not segment.held
                    and _is_free(segment)
                ):
                    best = segment
            if best is None:
                best = self._create(wanted)
            if best is not None:
                best.held = True
            return best

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
    """A shared value: `data`, until `delete()`; as a context manager it returns the value.

    Arrays that were taken from `data` stay valid after `delete`, and their memory in use.
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self.deleted = False

    def delete(self) -> None:
        """Drop the value."""
        self.data = None
        self.deleted = True

    def __enter__(self) -> Any:
        return self.data

    def __exit__(self, *_: object) -> None:
        self.delete()


def get(name: bytes, raw: bytes | None = None) -> Shared:
    """Return the value of a name as a Shared; a message with the head `raw` is not decoded.

    Raises SharedMemoryError if the name was read before or its memory cannot be opened;
    MalformedMessageError.
    """
    if name[:2] == JOINED:
        first, *others = split(name)
        return _decoded_value(bytes(first), [memoryview(bytearray(part)) for part in others], raw)
    fields = _parse_name(name)
    segment = open_segment(fields.owner, fields.descriptor, fields.cookie)
    capacity, generation = segment.capacity, fields.generation
    for start, nbytes in fields.parts:
        if start < 0 or nbytes < 0 or start + nbytes > capacity:
            raise MalformedMessageError(
                "a name of shared memory is malformed: a part lies beyond the end of the memory"
            )
    reader = os.getpid()
    if not segment.take(generation, reader):
        raise SharedMemoryError(
            "this shared memory was read already, or its pool forgot it: it can be read once, and may hold"
            " another message now"
        )
    whole = memoryview(lease(segment, capacity, segment.release, reader, generation))  # pyright: ignore[reportArgumentType]
    parts = [whole[start : start + nbytes] for start, nbytes in fields.parts]
    return _decoded_value(fields.head, parts, raw)


def _publish(segment: Segment, head: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Mark a segment as full, and return its name."""
    name = _Name(segment.owner, segment.descriptor, segment.cookie, segment.fill(), head, spans)
    segment.held = False
    return _SHARED + _pack(name)


def _parse_name(name: bytes) -> _Name:
    if name[:2] != _SHARED:
        raise MalformedMessageError("the message is not a name that SharedPool.put returned")
    try:
        return _unpack(memoryview(name)[2:])
    except msgspec.MsgspecError as error:
        raise MalformedMessageError(
            f"the name of shared memory in the message is malformed: {error}"
        ) from None


def _decoded_value(head: bytes, parts: list[memoryview], raw: bytes | None) -> Shared:
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
        return status.rpartition(b")")[2].split()[0] != b"Z"  # not a zombie
    except OSError:
        return False


def _after_fork() -> None:
    for pool in list(_pools):
        pool._reset()  # pyright: ignore[reportPrivateUsage]


process.after_fork(_after_fork)
