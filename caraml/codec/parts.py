"""The parts of a message, and the marks that distinguish kinds of messages."""

import builtins
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import zmq

from caraml.errors import EncodeError, MalformedMessageError
from caraml.limits import MAX_PARTS

Buffer: TypeAlias = bytes | bytearray | memoryview | np.ndarray[Any, np.dtype[Any]] | zmq.Frame

# The first two bytes of a message tell its kind; caraml.codec.encode describes TREE and ARRAYS. Other modules
# define more second bytes: caraml.inmemory 7 and 8, caraml.zmq.pubsub 8, caraml.zmq.acknowledged 17 to 21.
MAGIC = 0xCA
TREE = bytes((MAGIC, 1))
ARRAYS = bytes((MAGIC, 2))
PICKLE = bytes((MAGIC, 4))
FAILURE = bytes((MAGIC, 5))
JOINED = bytes((MAGIC, 6))
_ALIGNMENT = 64  # bytes, of the parts in a joined message


class Parts(list[Buffer]):
    """A message of several frames; a type of its own, so that a user's list is never taken for one."""

    __slots__ = ()


def view(part: "Buffer | Inline") -> memoryview:
    """Return a view of the bytes of a part. Raises EncodeError."""
    memory: Any = part.buffer if isinstance(part, (zmq.Frame, Inline)) else part
    try:
        return memoryview(memory).cast("B")
    except (TypeError, ValueError):  # ValueError: NumPy has no buffer of dates
        raise _needs_serializer(part) from None


def size(part: Buffer) -> int:
    """Return the size of a part in bytes. Raises EncodeError."""
    if type(part) is bytes:
        return len(part)
    return part.nbytes if isinstance(part, (np.ndarray, memoryview)) else view(part).nbytes


def _needs_serializer(value: object) -> EncodeError:
    name = "str" if isinstance(value, str) else "msgpack"
    kind = type(value).__name__
    return EncodeError(f"a {kind} cannot be sent as it is; use serializer={name!r} or one that returns bytes")


class Inline:
    """A message inside another frame, with the properties of a zmq.Frame that decoders use."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    @property
    def bytes(self) -> builtins.bytes:
        """Return the data as bytes."""
        data = self._data
        return data if isinstance(data, builtins.bytes) else data.tobytes()

    @property
    def buffer(self) -> memoryview:
        """Return a view of the data."""
        return memoryview(self._data)


def join(parts: Sequence[Buffer]) -> bytes:
    """Join parts into one frame: a table of lengths, then the aligned parts."""
    lengths = [size(part) for part in parts]
    pieces: list[bytes | memoryview] = [JOINED + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths)]
    position = len(pieces[0])
    for part, length in zip(parts, lengths, strict=True):
        padding = -position % _ALIGNMENT
        pieces += [bytes(padding), view(part)]
        position += padding + length
    return b"".join(pieces)


def split(joined: bytes | bytearray | memoryview) -> list[memoryview]:
    """Return views of the parts of a joined message. Raises MalformedMessageError."""
    whole = memoryview(joined)
    try:
        if bytes(whole[:2]) != JOINED:
            raise MalformedMessageError("the bytes are not the result of pa_serialize")
        (count,) = struct.unpack_from("<I", whole, 2)
        if not 0 < count <= MAX_PARTS:
            raise MalformedMessageError(
                f"the bytes are damaged: they declare {count} parts, not 1 to {MAX_PARTS}"
            )
        lengths = struct.unpack_from(f"<{count}Q", whole, 6)
    except struct.error as error:
        raise MalformedMessageError(
            f"the bytes are cut short, within the list of the lengths of their parts: {error}"
        ) from None
    position = 6 + 8 * count
    parts: list[memoryview] = []
    for length in lengths:
        position += -position % _ALIGNMENT
        parts.append(whole[position : position + length])
        if len(parts[-1]) != length:
            raise MalformedMessageError(f"the bytes are cut short, in part {len(parts)} of {count}")
        position += length
    return parts
