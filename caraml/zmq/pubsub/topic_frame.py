"""The first frame of a published message.

    topic | OPENING | kind | stream | number | data

ZeroMQ filters by the prefix of a frame, so the topic comes first; OPENING, which no topic may contain, ends
it. `stream` is a random number for each topic of a publisher, and `number` counts its messages; 0 follows
LAST_NUMBER. The header is predictable, so that a subscriber compares it with the expected one in one step.
"""

import struct
from collections.abc import Iterator
from itertools import repeat
from operator import concat
from typing import Any, NamedTuple

from caraml.errors import MalformedMessageError

# Where the data is: in this frame, in the next ones, or the first part in this frame and the others in the
# next ones.
INLINE, DETACHED, PARTS = range(3)
OPENING = b"\xca\x08\xf6\xff"  # not UTF-8: no text has it
MAX_TOPIC = (1 << 16) - 1
LAST_NUMBER = (1 << 32) - 1

_fields = struct.Struct(">BII")  # kind, stream, number
HEADER_BYTES = len(OPENING) + _fields.size
_FIRST_LOOK = 1 << 10
_LAST_BYTES = tuple(bytes((value,)) for value in range(256))


class Head(NamedTuple):
    """The topic and the fields of a header, and the offset of the data."""

    topic: bytes
    kind: int
    stream: int
    number: int
    data: int


def check_topic(topic: bytes) -> bytes:
    """Return the topic. Raises ValueError for an invalid one."""
    if len(topic) > MAX_TOPIC:
        raise ValueError(f"a topic of {len(topic)} bytes exceeds the maximum of {MAX_TOPIC}")
    if OPENING in topic:
        raise ValueError(f"a topic must not contain {OPENING!r}, which ends topics on the wire")
    return topic


def start(topic: bytes, kind: int, stream: int) -> bytes:
    """Return a header without its number."""
    return topic + OPENING + _fields.pack(kind, stream, 0)[:-4]


def header(topic: bytes, kind: int, stream: int, number: int) -> bytes:
    """Return a header."""
    return topic + OPENING + _fields.pack(kind, stream, number)


def headers(begin: bytes, number: int, most: int = 256) -> Iterator[bytes]:
    """Return up to `most` headers from `number` on, which end before the next multiple of 256."""
    last = number & 255
    joined: Any = map(concat, repeat(begin + number.to_bytes(4, "big")[:3]), _LAST_BYTES[last : last + most])
    return joined


def read_head(frame: bytes | memoryview) -> Head | None:
    """Return the head of a frame; None if it is not from a ZmqPub. Raises MalformedMessageError."""
    if isinstance(frame, bytes):
        beginning = frame
        end = beginning.find(OPENING, 0, MAX_TOPIC + len(OPENING))
    else:
        beginning = bytes(frame[:_FIRST_LOOK])
        end = beginning.find(OPENING)
        if end < 0 or end + HEADER_BYTES > _FIRST_LOOK:
            beginning = bytes(frame[: MAX_TOPIC + HEADER_BYTES])
            end = beginning.find(OPENING)
    if end < 0:
        return None
    try:
        kind, stream, number = _fields.unpack_from(beginning, end + len(OPENING))
    except struct.error:
        raise MalformedMessageError("a header is cut short: the sender is not a ZmqPub") from None
    return Head(beginning[:end], kind, stream, number, end + HEADER_BYTES)
