"""A message of several parts as one bytes object and back.

Costs a copy each way: sockets send the parts as they are instead.
"""

import struct
from collections.abc import Sequence

from caraml.codec.parts import MAGIC, Buffer, size, view
from caraml.errors import MalformedMessageError
from caraml.limits import DEFAULT_LIMITS

JOINED = bytes((MAGIC, 6))
_ALIGNMENT = 64


def join(parts: Sequence[Buffer]) -> bytes:
    """All parts in one: a table of lengths, then each part, aligned."""
    lengths = [size(part) for part in parts]
    pieces: list[bytes | memoryview] = [JOINED + struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths)]
    position = len(pieces[0])
    for part, length in zip(parts, lengths, strict=True):
        padding = -position % _ALIGNMENT
        pieces += [bytes(padding), view(part)]
        position += padding + length
    return b"".join(pieces)


def split(joined: bytes | bytearray | memoryview, most: int = DEFAULT_LIMITS.parts) -> list[memoryview]:
    """The parts, as views: one, and up to `most`. Raises MalformedMessageError."""
    whole = memoryview(joined)
    try:
        if bytes(whole[:2]) != JOINED:
            raise MalformedMessageError("not a joined message")
        (count,) = struct.unpack_from("<I", whole, 2)
        if not 0 < count <= most:
            raise MalformedMessageError(f"a joined message of {count} parts, not 1 to {most}")
        lengths = struct.unpack_from(f"<{count}Q", whole, 6)
    except struct.error as error:
        raise MalformedMessageError(f"not a joined message: {error}") from None
    position = 6 + 8 * count
    parts: list[memoryview] = []
    for length in lengths:
        position += -position % _ALIGNMENT
        parts.append(whole[position : position + length])
        if len(parts[-1]) != length:
            raise MalformedMessageError("a joined message cut short")
        position += length
    return parts
