"""The protocol of acknowledged delivery: the heads of frames, and the sender's window of one connection.

The first frame of every message begins with a Head. The sender numbers its messages on each connection
(`sequence`); the receiver accepts them in this order only, and reports `received` (the sender resends what
follows) and `finished` (the sender forgets up to it). The `identifier` of a message is unique to its sender,
also when the message goes to another receiver.

The head of a WELCOME is followed by a name of NAME_BYTES: another name on the same connection is another
receiver, which does not know the messages of the former one. A READY with a session comes from a receiver
that has reconnected: messages that it finished in that session are not sent again.
"""

import struct
import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from caraml.codec.parts import MAGIC, Parts, size, view

# A sequence after that of every message.
EVERYTHING = (1 << 63) - 1
HELLO, DATA, WELCOME, ACK, READY = range(17, 22)
# Flags of DATA. DETACHED: the payload is in a frame of its own, so that it is not copied behind the head.
REDELIVERED, DETACHED = 1, 2

_head = struct.Struct("<BBHIQQQQQ")
_flags = struct.Struct("<H")
_FLAGS_AT = 2
HEAD_BYTES = _head.size
NAME_BYTES = 8
_unpack = _head.unpack_from
_pack = _head.pack


class Head(NamedTuple):
    """The head of a frame; the meaning of its fields depends on the kind.

    Attributes:
        magic: MAGIC, to recognize a head.
        kind: HELLO to READY.
        count: In DATA, the flags; in WELCOME and ACK, the size of the window in messages.
        connection: The connection of the session.
        sender: The sender of the session.
        first: In DATA, the sequence of the message; in HELLO, the lowest unacknowledged sequence; in WELCOME
            and ACK, `received`; in READY, `finished`.
        second: In DATA, the identifier of the message; in WELCOME and ACK, `finished`.
        window_bytes: In WELCOME and ACK, the size of the window in bytes.
        asked: In HELLO, the last sequence sent before it. WELCOME repeats it, or has EVERYTHING if the
            receiver noticed a gap: missing messages up to this one are lost, later ones may still arrive.
    """

    magic: int
    kind: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    connection: int
    sender: int
    first: int
    second: int
    window_bytes: int
    asked: int

    @property
    def session(self) -> tuple[int, int]:
        """Return the sender and connection, within which messages are numbered."""
        return self.sender, self.connection


unpack_head = _unpack  # the fields as a tuple
_make_head = Head._make


def pack_head(
    kind: int,
    session: tuple[int, int],
    first: int = 0,
    second: int = 0,
    count: int = 0,
    window_bytes: int = 0,
    asked: int = 0,
) -> bytes:
    """Return a head as bytes."""
    return _pack(MAGIC, kind, count, session[1], session[0], first, second, window_bytes, asked)


def read_head(frame: bytes | memoryview) -> Head | None:
    """Return the head of a frame, None if it has none."""
    if len(frame) < HEAD_BYTES:
        return None
    head = _make_head(_unpack(frame))
    return head if head.magic == MAGIC and HELLO <= head.kind <= READY else None


class Unacknowledged(NamedTuple):
    """A message in the window, kept until it is acknowledged."""

    sequence: int
    identifier: int
    frames: Any
    nbytes: int


# Creates an Unacknowledged in half the time of its constructor.
_unacknowledged: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Window:
    """The messages sent to a receiver that it has not finished; its ZeroMQ identity is `peer`.

    The identity is b"" if the sender connects.
    """

    def __init__(self, peer: bytes, sender: int, connection: int) -> None:
        self.peer = peer
        self.receiver = b""
        self.sender = sender
        self.connection = connection
        self.next_sequence = 1
        self.unfinished: deque[Unacknowledged] = deque()
        self.in_flight = 0
        self.max_messages = self.max_bytes = 0  # until the receiver announces its window
        self.moved_at = self.asked_at = time.monotonic()

    @property
    def session(self) -> tuple[int, int]:
        """Return the sender and connection, within which messages are numbered."""
        return self.sender, self.connection

    def has_room(self, nbytes: int) -> bool:
        """Return whether a message of this size may be sent: any size, if fewer than two are unfinished."""
        waiting = len(self.unfinished)
        return waiting < self.max_messages and (self.in_flight + nbytes <= self.max_bytes or waiting < 2)

    def add(self, identifier: int, payload: Any, flags: int) -> Any:
        """Number a message and keep it; return the frames to send."""
        sequence = self.next_sequence
        self.next_sequence = sequence + 1
        head = _pack(MAGIC, DATA, flags, self.connection, self.sender, sequence, identifier, 0, 0)
        if type(payload) is bytes and not flags & DETACHED:
            frames: Any = head + payload
            nbytes = len(frames)
        else:
            frames, nbytes = _frames(head, payload)
        if not self.unfinished:
            self.moved_at = time.monotonic()
        self.unfinished.append(_unacknowledged(Unacknowledged, (sequence, identifier, frames, nbytes)))
        self.in_flight += nbytes
        return frames

    def mark_redelivered(self) -> None:
        """Mark the unfinished messages as possibly delivered to a receiver that died."""
        self.unfinished = deque(
            message._replace(frames=_flag_redelivered(message.frames)) for message in self.unfinished
        )

    def finish(self, finished: int) -> None:
        """Forget the messages up to this sequence."""
        unfinished = self.unfinished
        if unfinished and unfinished[0].sequence <= finished:
            self.moved_at = time.monotonic()
            forget = unfinished.popleft
            for _ in range(min(finished - unfinished[0].sequence + 1, len(unfinished))):
                self.in_flight -= forget()[3]


def own_copy(message: Any) -> Any:
    """Return a message that the program cannot change; parts that are bytes or frames are not copied."""
    if isinstance(message, Parts):
        return Parts(
            part.tobytes() if isinstance(part, (np.ndarray, memoryview)) else part for part in message
        )
    return message if type(message) is bytes else view(message).tobytes()


def _frames(head: bytes, payload: Any) -> tuple[Any, int]:
    if type(payload) is bytes:
        return Parts((head, payload)), len(payload) + HEAD_BYTES
    return Parts((head + payload[0], *payload[1:])), HEAD_BYTES + sum(map(size, payload))


def _flag_redelivered(frames: Any) -> Any:
    if type(frames) is not bytes:
        return Parts((_flag_redelivered(frames[0]), *frames[1:]))
    (flags,) = _flags.unpack_from(frames, _FLAGS_AT)
    return frames[:_FLAGS_AT] + _flags.pack(flags | REDELIVERED) + frames[_FLAGS_AT + _flags.size :]


def payload_of(message: Unacknowledged) -> tuple[Any, int]:
    """Return the payload and flags of a message, to send it to another receiver."""
    frames = message.frames
    if type(frames) is bytes:
        return frames[HEAD_BYTES:], 0
    if len(frames[0]) == HEAD_BYTES and len(frames) == 2:
        return frames[1], DETACHED
    return Parts((frames[0][HEAD_BYTES:], *frames[1:])), 0
