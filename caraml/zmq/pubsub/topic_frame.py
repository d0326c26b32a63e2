"""The first frame of a published message, made and read.

    topic | OPENING | kind | publisher | number | data

ZeroMQ filters by what a frame begins with, so the topic comes first and OPENING, which no topic may contain,
ends it. All before the data is known beforehand: a subscriber compares it with what it expects, at once.
"""

import struct
from collections.abc import Iterator
from itertools import repeat
from operator import concat
from typing import Any, NamedTuple

from caraml.errors import MalformedMessageError

INLINE, DETACHED, JOINED, PARTS = range(
    4
)  # where the data is: here, the next frame, here joined, from here on
OPENING = b"\xca\x08\xf6\xff"  # not UTF-8: no text has it
LONGEST_TOPIC = (1 << 16) - 1
LAST_NUMBER = (1 << 32) - 1

_fields = struct.Struct(">BII")  # kind, publisher, number
HEADER_BYTES = len(OPENING) + _fields.size
_NEAR = 1 << 10
_LAST_BYTES = tuple(bytes((value,)) for value in range(256))


class Head(NamedTuple):
    """A frame's topic, what its header says, and where its data begins."""

    topic: bytes
    kind: int
    publisher: int
    number: int
    data: int


def check_topic(topic: bytes) -> bytes:
    """Return the topic. Raises ValueError for one that cannot be published."""
    if len(topic) > LONGEST_TOPIC:
        raise ValueError(f"a topic of {len(topic)} bytes exceeds the maximum of {LONGEST_TOPIC}")
    if OPENING in topic:
        raise ValueError(f"a topic must not contain {OPENING!r}, which ends topics on the wire")
    return topic


def start(topic: bytes, kind: int, publisher: int) -> bytes:
    """Return a header without its number."""
    return topic + OPENING + _fields.pack(kind, publisher, 0)[:-4]


def header(topic: bytes, kind: int, publisher: int, number: int) -> bytes:
    """Return a header: all before the data."""
    return topic + OPENING + _fields.pack(kind, publisher, number)


def headers(begin: bytes, number: int, most: int = 256) -> Iterator[bytes]:
    """Return the headers of `number` and up to `most` that differ from it in the last byte only."""
    last = number & 255
    joined: Any = map(concat, repeat(begin + number.to_bytes(4, "big")[:3]), _LAST_BYTES[last : last + most])
    return joined


def read_head(frame: bytes | memoryview) -> Head | None:
    """Return the head of a frame; None if it is not of a ZmqPub. Raises MalformedMessageError."""
    if isinstance(frame, bytes):
        near = frame
        end = near.find(OPENING, 0, LONGEST_TOPIC + len(OPENING))
    else:
        near = bytes(frame[:_NEAR])
        end = near.find(OPENING)
        if end < 0 or end + HEADER_BYTES > _NEAR:
            near = bytes(frame[: LONGEST_TOPIC + HEADER_BYTES])
            end = near.find(OPENING)
    if end < 0:
        return None
    try:
        kind, publisher, number = _fields.unpack_from(near, end + len(OPENING))
    except struct.error:
        raise MalformedMessageError("the published message is cut short") from None
    return Head(near[:end], kind, publisher, number, end + HEADER_BYTES)
