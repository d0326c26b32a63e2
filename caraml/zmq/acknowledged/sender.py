"""ZmqSender: acknowledged delivery, the sending side; see receiver.py for the other.

>>> from caraml.zmq.acknowledged.receiver import ZmqReceiver
>>> receiver = ZmqReceiver(port=0, deserializer="msgpack")
>>> _ = receiver.start_loop(lambda message: None)
>>> sender = ZmqSender(address=receiver.address, serializer="msgpack", timeout=5)
>>> for step in range(100):
...     sender.send({"step": step})
>>> sender.flush(timeout=5)
>>> sender.close(timeout=5)
True
>>> receiver.close()

**Promise.** Every message that `send` took is kept until a receiver acknowledged it, and sent again when a
connection or a receiver is lost: in order and exactly once to a receiver that lives, at least once over the
death of one (what may have been given before says so: `receiver.redelivered`, and keeps its
`receiver.identifier`). Up to `window` messages are on their way at once: `send` returns before the
acknowledgement. `flush` waits for all; `close` returns True only when all were acknowledged; leaving a
`with` block or the program with some unacknowledged logs a warning that says how many. A sender that dies
takes what is unacknowledged with it.

No thread works in the background: that a connection was lost is noticed, and what was on its way is sent
again, inside `send`, `flush` and `close` only. Call `flush` before you wait for anything else, such as an
answer.

A connecting sender has one receiver; a binding one gives each message to the connected receiver with most
room, and what a dead receiver had not finished to the others. Through a ROUTER-DEALER proxy (`ZmqProxy`) the
connected receivers get messages in turn; what none has acknowledged after `resend_after` seconds is sent
again, to whichever is next: at least once, where a receiver dies or is slower than that.
"""

import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Unpack

import zmq

from caraml import process, serializers
from caraml.codec.parts import Parts, size
from caraml.errors import (
    ClosedError,
    MalformedMessageError,
    MessageTooLargeError,
    SocketError,
    ZmqTimeoutError,
)
from caraml.limits import MAX_PARTS
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import ZERO_COPY
from caraml.utils.serializer import get_serializer
from caraml.zmq.acknowledged.protocol import (
    DETACHED,
    DONE,
    HEAD_BYTES,
    HELLO,
    NAME_BYTES,
    READY,
    REDELIVERED,
    SHARED,
    WELCOME,
    Head,
    Unacknowledged,
    Window,
    owned,
    pack_head,
    payload_of,
    read_done,
    read_head,
)
from caraml.zmq.endpoint import Endpoint, SocketOptions

log = logging.getLogger("caraml")

HEARTBEAT = 5.0
ASK_AGAIN = 1.0
RESEND_AFTER = 10.0
CLOSE_TIMEOUT = 10.0
_FLUSH_AT_EXIT = 0.05
_READ_EVERY = 32
_MOST_UNREAD = 1 << 16  # more than the acknowledgements of one window
_MOST_BYTES = 1 << 10  # receivers say little; a handshake with keys is longer than any of it


class ZmqSender(Endpoint):
    """Sends messages that must arrive; connects unless `bind=True`. Keywords as ZmqSocket's, and:

    `timeout` seconds (negative: for ever) that `send` may wait for room, and that the oldest message may go
    without an acknowledgement before `send` raises; `serializer`; `callback(socket)`. `heartbeat` is 5
    seconds unless given. `resend_after` seconds (10) must be more than a receiver behind a proxy takes.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        timeout: float = -1,
        serializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        resend_after: float = RESEND_AFTER,
        **options: Unpack[SocketOptions],
    ) -> None:
        options.setdefault("heartbeat", HEARTBEAT)
        self.timeout = timeout
        self.resend_after = resend_after
        self._resend_at = 0.0
        self._sender = secrets.randbits(63)
        self._connections = itertools.count(1)
        self._identifiers = itertools.count(1)
        self._windows: dict[bytes, Window] = {}
        self._orphans: list[tuple[int, Unacknowledged]] = []  # with the connection each was sent over
        self._unread = 0
        self._news = 0
        super().__init__(zmq.ROUTER if bind else zmq.DEALER, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)
        self._most = self.socket.limits.message_bytes - HEAD_BYTES
        if not bind:
            self._greet(b"")

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.sndhwm = 0  # the window bounds what is on its way; a high-water mark would stall heartbeats
        raw.rcvhwm, raw.maxmsgsize = _MOST_UNREAD, _MOST_BYTES
        raw.linger = 0
        if self._bind:
            raw.router_mandatory = True
        process.close_at_exit(self)

    def send(self, msg: Any, timeout: float | None = None) -> None:
        """Take one message for delivery; `msg` may be changed afterwards.

        Raises ZmqTimeoutError when there is no room, or no acknowledgement, for `timeout` seconds, by default
        the socket's (`msg` is not taken then), AuthenticationError, EncodeError.
        """
        payload = msg if self._encode is None else self._encode(msg)
        if type(payload) is bytes:
            nbytes = len(payload)
        else:
            payload = owned(payload)
            nbytes = sum(map(size, payload)) if isinstance(payload, Parts) else size(payload)
            if isinstance(payload, Parts) and len(payload) >= MAX_PARTS:
                raise MessageTooLargeError(
                    f"{self.address}: {len(payload)} parts; fewer than {MAX_PARTS} can be sent"
                )
        if nbytes > self._most:
            raise MessageTooLargeError(f"{self.address}: {nbytes} bytes, over Limits.message_bytes")
        timeout = self.timeout if timeout is None else timeout
        wire = self._wire
        wire.enter()
        try:
            self._unread += 1
            if self._unread >= _READ_EVERY or wire.link.news != self._news:
                self._read()
            if timeout >= 0:
                self._refuse_if_stalled(timeout)
            window = None if self._orphans else self._window_for(nbytes)
            if window is None:
                window = self._wait_for_room(nbytes, timeout)
            flags = DETACHED if nbytes >= ZERO_COPY and type(payload) is bytes else 0
            self._put(window, window.add(next(self._identifiers), payload, flags))
        finally:
            wire.leave()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent is acknowledged; `timeout` and errors as of `send`."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        self._wire.enter()
        try:
            self._read()
            while self.unacknowledged:
                self._wait(deadline, timeout, f"{self.unacknowledged} acknowledgements")
        finally:
            self._wire.leave()

    @property
    def unacknowledged(self) -> int:
        """Return the number of messages that were sent and are not acknowledged."""
        return sum(len(window.unfinished) for window in self._windows.values()) + len(self._orphans)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:  # type: ignore[override]
        """Flush for up to `timeout` seconds and close; True only if every message was acknowledged."""
        delivered = not self.unacknowledged
        if not self.socket.unwrap().closed and not delivered:
            try:
                self.flush(timeout)
                delivered = True
            except (ZmqTimeoutError, ClosedError, ConnectionError):
                delivered = False
        self._wire.close(0)
        return delivered

    def __exit__(self, *_: object) -> None:
        if not self.close():
            self._warn_of_loss()

    def at_exit(self, stage: int) -> bool:
        """Wait a moment for acknowledgements; return True to be called again."""
        if stage == 2 and self._wire.exiting and self.unacknowledged:
            self._warn_of_loss()
        if stage != 1 or self.socket.unwrap().closed:
            return False
        self._wire.exiting = True
        if self._wire.link.fault is not None or not self._wire.turns:
            return False
        with contextlib.suppress(ZmqTimeoutError):
            self.flush(_FLUSH_AT_EXIT)
        return self.unacknowledged > 0

    def _warn_of_loss(self) -> None:
        log.warning("%s: closed with %d messages unacknowledged", self.address, self.unacknowledged)

    def in_use(self) -> bool:
        """Return False: the wire is asked by itself."""
        return False

    def _window_for(self, nbytes: int) -> Window | None:
        windows = self._windows
        if len(windows) == 1:
            (window,) = windows.values()
            return window if window.has_room(nbytes) else None
        with_room = [window for window in windows.values() if window.has_room(nbytes)]
        return min(with_room, key=_load, default=None)

    def _wait_for_room(self, nbytes: int, timeout: float) -> Window:
        deadline = time.monotonic() + timeout
        while self._orphans or (window := self._window_for(nbytes)) is None:
            self._wait(deadline, timeout, "a receiver with room")
        return window

    def _wait(self, deadline: float, timeout: float, waited_for: str) -> None:
        """Wait for one message of a receiver, at most a slice."""
        left = deadline - time.monotonic() if timeout >= 0 else 1.0
        if left <= 0:
            raise self._wire.late(waited_for, timeout)
        try:
            frame, rest = self._wire.receive(min(left, self._wire.slice_ms / 1000), waited_for)
        except ZmqTimeoutError:
            self._after_silence()
        except MalformedMessageError as error:
            self._reject(error)
        else:
            self._take(frame, rest)
        self._read()

    def _refuse_if_stalled(self, timeout: float) -> None:
        for window in self._windows.values():
            if window.unfinished and time.monotonic() - window.moved_at > timeout:
                self._read()
                if window.unfinished and time.monotonic() - window.moved_at > timeout:
                    self._after_silence()
                    raise self._wire.late(f"an acknowledgement of {len(window.unfinished)} messages", timeout)

    def _read(self) -> None:
        """Read all that receivers have sent."""
        self._unread = 0
        wire = self._wire
        while (frame := wire.receive_now()) is not None:
            try:
                self._take(frame, wire.rest() if frame.more else [])
            except MalformedMessageError as error:
                self._reject(error)
        if wire.link.fault is not None:
            raise wire.link.fault
        if wire.link.news != self._news:
            self._news = wire.link.news
            for window in list(self._windows.values()):
                if window.unfinished or not self._bind:
                    self._greet(window.peer)
        if not self._bind:
            self._resend_late()

    def _take(self, frame: zmq.Frame, rest: list[zmq.Frame]) -> None:
        peer = b""
        if self._bind:
            if not rest:
                raise MalformedMessageError("an empty message")
            peer, frame = frame.bytes, rest[0]
        head = read_head(frame.buffer)
        if head is None:
            raise MalformedMessageError("the answer is not from a ZmqReceiver")
        if head.kind == READY:
            self._met(peer, head)
        elif (window := self._windows.get(peer)) is not None and head.session == window.session:
            if head.kind == DONE:
                for sequence in read_done(frame.bytes):
                    window.finish_one(sequence)
                return
            if head.kind == WELCOME:
                self._welcomed(window, frame.bytes[HEAD_BYTES : HEAD_BYTES + NAME_BYTES])
            self._heard(window, head)

    def _met(self, peer: bytes, head: Head) -> None:
        """Greet a receiver that connected; it may have finished messages of a former connection."""
        if peer in self._windows or not self._bind:
            return
        self._greet(peer)
        if head.sender != self._sender:
            return
        for window in list(self._windows.values()):
            if window.connection == head.connection:
                window.finish(head.first)
                self._bury(window)
        self._orphans = [
            (connection, message)
            for connection, message in self._orphans
            if connection != head.connection or message.sequence > head.first
        ]

    def _welcomed(self, window: Window, receiver: bytes) -> None:
        if window.receiver not in (b"", receiver):
            window.given_before()
        window.receiver = receiver

    def _heard(self, window: Window, head: Head) -> None:
        window.finish(head.second)
        if head.kind == SHARED:
            window.share()
        if head.kind in (WELCOME, SHARED):
            if window.max_messages == 0 or not window.unfinished:
                window.moved_at = time.monotonic()
            window.max_messages, window.max_bytes = head.count, head.window_bytes
            for message in list(window.unfinished):
                if head.first < message.sequence <= head.asked:
                    self._put(window, message.frames)
        if self._orphans:
            self._rehome()

    def _greet(self, peer: bytes) -> None:
        window = self._windows.get(peer)
        if window is None:
            window = self._windows[peer] = Window(peer, self._sender, next(self._connections))
        lowest = window.unfinished[0].sequence if window.unfinished else window.next_sequence
        window.asked_at = time.monotonic()
        self._put(window, pack_head(HELLO, window.session, lowest, asked=window.next_sequence - 1))

    def _after_silence(self) -> None:
        """Ask the receivers that owe an acknowledgement how far they are; that also finds the dead ones."""
        now = time.monotonic()
        for window in list(self._windows.values()):
            if (window.unfinished or not window.max_messages) and now - window.asked_at > ASK_AGAIN / 2:
                self._greet(window.peer)
        if self._orphans:
            self._rehome()

    def _resend_late(self) -> None:
        """Send again what no receiver behind a proxy has acknowledged for long."""
        now = time.monotonic()
        if now >= self._resend_at:
            self._resend_at = now + min(ASK_AGAIN, self.resend_after) / 4
            for window in self._windows.values():
                for frames in window.late(self.resend_after):
                    self._put(window, frames)

    def _put(self, window: Window, frames: Any) -> None:
        try:
            if window.peer:
                self._wire.send_part(window.peer, zmq.SNDMORE, True, None)
            if type(frames) is bytes:
                self._wire.send_part(frames, 0, True, None)
                return
            for index, part in enumerate(frames):
                flags = zmq.SNDMORE if index < len(frames) - 1 else 0
                self._wire.send_part(part, flags, False, None)
        except SocketError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._bury(window)

    def _bury(self, window: Window) -> None:
        """Send the unfinished messages of a lost receiver to the other receivers."""
        if self._windows.pop(window.peer, None) is not None:
            self._orphans += [(window.connection, message) for message in window.unfinished]
            self._orphans.sort(key=_identifier)
            self._rehome()

    def _rehome(self) -> None:
        while self._orphans:
            _, message = self._orphans[0]
            window = self._window_for(message.nbytes)
            if window is None:
                return
            self._orphans.pop(0)
            payload, flags = payload_of(message)
            self._put(window, window.add(message.identifier, payload, flags | REDELIVERED))


def _identifier(orphan: tuple[int, Unacknowledged]) -> int:
    return orphan[1].identifier


def _load(window: Window) -> int:
    return len(window.unfinished)
