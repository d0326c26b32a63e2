"""The frames of acknowledged delivery, and the sender's window over one connection.

Every message's first frame begins with a Head. The sender numbers its messages per connection (`sequence`),
the receiver takes them in that order only, and says how far it got: `received` (resend from after it) and
`finished` (forget up to it). A number of the whole sender (`identifier`) marks a message that is given to
another receiver.

A WELCOME's head is followed by a NAME_BYTES name of the receiver: another name on the same connection is a
receiver that does not know what the former one was given. A READY that names a session is a receiver that
connected again: what it had finished of that session is not sent again.

Through a ROUTER-DEALER proxy a sender's messages reach several receivers in turn. They answer HELLO with
SHARED, and acknowledge with DONE: the sequences that are finished.
"""

import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from caraml.codec.parts import MAGIC, Parts, size, view

EVERYTHING = (1 << 63) - 1
HELLO, DATA, WELCOME, ACK, READY, SHARED, DONE = range(17, 24)
REDELIVERED, DETACHED = 1, 2

_head = struct.Struct("<BBHIQQQQQ")
_flags = struct.Struct("<H")
_FLAGS_AT = 2
HEAD_BYTES = _head.size
NAME_BYTES = 8
MOST_DONE = 100  # sequences: a sender takes 1 KiB
_unpack = _head.unpack_from
_pack = _head.pack


class Head(NamedTuple):
    """`sender` and `connection` name the session; `first` and `second` are sequence and identifier of DATA,
    lowest unacknowledged sequence of HELLO, received and finished of WELCOME and ACK, finished of READY.
    `count` is the flags of DATA; of WELCOME and ACK the messages that may be on their way, and `window_bytes`
    their bytes. `asked` of HELLO is the last sequence sent before it, and comes back in the WELCOME: what is
    missing up to there is lost, what was sent after may be on its way still.
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
        """Return the sender and connection that sequence numbers count within."""
        return self.sender, self.connection


unpack_head = _unpack  # the fields as a tuple
_make = Head._make


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
    """Return the head at the beginning of a frame, None if there is none."""
    if len(frame) < HEAD_BYTES:
        return None
    head = _make(_unpack(frame))
    return head if head.magic == MAGIC and HELLO <= head.kind <= DONE else None


def pack_done(session: tuple[int, int], sequences: list[int]) -> bytes:
    """Return a DONE as bytes."""
    return pack_head(DONE, session) + struct.pack(f"<{len(sequences)}Q", *sequences)


def read_done(frame: bytes) -> tuple[int, ...]:
    """Return the sequences of a DONE."""
    count = (len(frame) - HEAD_BYTES) // 8
    return struct.unpack_from(f"<{count}Q", frame, HEAD_BYTES)


class Unacknowledged(NamedTuple):
    """A message in the window, kept to be sent again."""

    sequence: int
    identifier: int
    frames: Any
    nbytes: int


# makes an Unacknowledged in half the time of its constructor
_unacknowledged: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Window:
    """The messages that one receiver was sent and has not finished. `peer` is its ZeroMQ identity (b"" if
    there is only one).
    """

    def __init__(self, peer: bytes, sender: int, connection: int) -> None:
        self.peer = peer
        self.receiver = b""
        self.sender = sender
        self.connection = connection
        self.next_sequence = 1
        self.unfinished: deque[Unacknowledged] = deque()
        self.in_flight = 0
        self.max_messages = self.max_bytes = 0  # nothing is sent before the receiver announces its window
        self.moved_at = self.asked_at = time.monotonic()
        self.sent_at: dict[int, float] | None = None  # by sequence, for a session of several receivers

    @property
    def session(self) -> tuple[int, int]:
        """Return the sender and connection that sequence numbers count within."""
        return self.sender, self.connection

    def has_room(self, nbytes: int) -> bool:
        """Return whether another message may be sent; two at a time of those too large for the window."""
        waiting = len(self.unfinished)
        return waiting < self.max_messages and (self.in_flight + nbytes <= self.max_bytes or waiting < 2)

    def add(self, identifier: int, payload: Any, flags: int) -> Any:
        """Number a message and keep it; returns the frames to send."""
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
        if self.sent_at is not None:
            self.sent_at[sequence] = time.monotonic()
        return frames

    def given_before(self) -> None:
        """Mark the unfinished messages as sent to a receiver that died."""
        self.unfinished = deque(
            message._replace(frames=_marked(message.frames)) for message in self.unfinished
        )

    def finish(self, finished: int) -> None:
        """Forget the messages that the receiver has finished."""
        unfinished = self.unfinished
        if unfinished and unfinished[0].sequence <= finished:
            self.moved_at = time.monotonic()
            forget = unfinished.popleft
            for _ in range(min(finished - unfinished[0].sequence + 1, len(unfinished))):
                self.in_flight -= forget()[3]

    def share(self) -> None:
        """Acknowledge messages one by one: several receivers share this window."""
        if self.sent_at is None:
            self.sent_at = dict.fromkeys((message.sequence for message in self.unfinished), time.monotonic())

    def finish_one(self, sequence: int) -> None:
        """Forget a message that one of several receivers has finished."""
        for index, message in enumerate(self.unfinished):
            if message.sequence == sequence:
                del self.unfinished[index]
                self.in_flight -= message.nbytes
                self.moved_at = time.monotonic()
                if self.sent_at is not None:
                    self.sent_at.pop(sequence, None)
            if message.sequence >= sequence:
                return

    def late(self, seconds: float) -> list[Any]:
        """Return the frames of messages sent that long ago, marked as redelivered, to be sent again."""
        if self.sent_at is None:
            return []
        now = time.monotonic()
        again: list[Any] = []
        for index, message in enumerate(self.unfinished):
            if now - self.sent_at[message.sequence] > seconds:
                marked = self.unfinished[index] = message._replace(frames=_marked(message.frames))
                self.sent_at[message.sequence] = now
                again.append(marked.frames)
        return again


def owned(message: Any) -> Any:
    """Return the message in memory of its own: it may have to be sent again."""
    if isinstance(message, Parts):
        return Parts(
            part.tobytes() if isinstance(part, (np.ndarray, memoryview)) else part for part in message
        )
    return message if type(message) is bytes else view(message).tobytes()


def _frames(head: bytes, payload: Any) -> tuple[Any, int]:
    if type(payload) is bytes:
        return Parts((head, payload)), len(payload) + HEAD_BYTES
    return Parts((head + payload[0], *payload[1:])), HEAD_BYTES + sum(map(size, payload))


def _marked(frames: Any) -> Any:
    if type(frames) is not bytes:
        return Parts((_marked(frames[0]), *frames[1:]))
    (flags,) = _flags.unpack_from(frames, _FLAGS_AT)
    return frames[:_FLAGS_AT] + _flags.pack(flags | REDELIVERED) + frames[_FLAGS_AT + _flags.size :]


def payload_of(message: Unacknowledged) -> tuple[Any, int]:
    """Return the payload and flags of a kept message, to send it to another receiver."""
    frames = message.frames
    if type(frames) is bytes:
        return frames[HEAD_BYTES:], 0
    if len(frames[0]) == HEAD_BYTES and len(frames) == 2:
        return frames[1], DETACHED
    return Parts((frames[0][HEAD_BYTES:], *frames[1:])), 0


_REMEMBERED = 1 << 13


class SharedSession:
    """A receiver's session that several receivers share; it acknowledges finished messages one by one.

    A ROUTER-DEALER proxy gives each message to the next receiver, so that no receiver knows what it should
    have had: the sender sends again what no receiver acknowledged.
    """

    def __init__(self, key: tuple[int, int], peer: bytes) -> None:
        self.key = key
        self.peer = peer
        self.gap = False
        self.received = self.acknowledged = 0
        self._finished: dict[int, bool] = {}  # sequence -> is finished, oldest first
        self._owed: list[int] = []

    @property
    def finished(self) -> int:
        """Return the last sequence that was finished here."""
        return self.acknowledged

    @finished.setter
    def finished(self, sequence: int) -> None:
        self._finished[sequence] = True
        self._owed.append(sequence)

    def take(self, sequence: int) -> bool:
        """Return whether a message is new here; one that is finished is acknowledged again."""
        finished = self._finished.get(sequence)
        if finished is None:
            self._finished[sequence] = False
            if len(self._finished) > _REMEMBERED:
                del self._finished[next(iter(self._finished))]
            return True
        if finished:
            self._owed.append(sequence)
        return False

    def acknowledgements(self) -> Iterator[bytes]:
        """Return the frames that acknowledge what is finished and is not acknowledged yet."""
        owed, self._owed = self._owed, []
        for start in range(0, len(owed), MOST_DONE):
            yield pack_done(self.key, owed[start : start + MOST_DONE])
