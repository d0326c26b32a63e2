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

**Guarantee.** The sender keeps every message until a receiver has acknowledged it, and repeats it when a
connection or a receiver is lost. A receiver that lives gets messages in order and exactly once; when one
dies, another gets its unfinished messages (`receiver.redelivered` is True then, and `receiver.identifier` the
same). `send` returns before the acknowledgement; up to `window` messages may be unacknowledged. `flush` waits
for all acknowledgements, and `close` returns whether all have come; leaving a `with` block or the program
without them logs a warning with their number. When the sender dies, its unacknowledged messages are lost.

There is no background thread: lost connections are noticed, and messages repeated, only inside `send`,
`flush` and `close`. Call `flush` before the program waits for something else, such as an answer.

A connecting sender has one receiver. A binding one sends each message to the connected receiver with the
fewest unfinished messages. Connect the two directly: receivers reject what comes through a `ZmqProxy`.
"""

import contextlib
import itertools
import logging
import secrets
import time
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
from caraml.transport.wire import ZERO_COPY
from caraml.utils.serializer import get_serializer
from caraml.zmq.acknowledged.protocol import (
    DETACHED,
    HEAD_BYTES,
    HELLO,
    NAME_BYTES,
    READY,
    REDELIVERED,
    WELCOME,
    Head,
    Unacknowledged,
    Window,
    own_copy,
    pack_head,
    payload_of,
    read_head,
)
from caraml.zmq.endpoint import Endpoint, EndpointOptions

log = logging.getLogger("caraml")

# These times are in seconds.
HEARTBEAT = 5.0
ASK_AGAIN = 1.0
CLOSE_TIMEOUT = 10.0
_FLUSH_AT_EXIT = 0.05
_READ_EVERY = 32  # messages sent
_MAX_UNREAD = 1 << 16  # more than the acknowledgements of a window
_MAX_ANSWER_BYTES = 1 << 10  # enough for a handshake with keys; answers are shorter


class ZmqSender(Endpoint):
    """Sends messages that must arrive; connects unless `bind=True`. It takes the keywords of ZmqSocket, and:

    `timeout` seconds (negative: for ever) that `send` may wait for room in the window, and after which it
    raises if nothing is acknowledged; `serializer`; `callback(socket)`. `heartbeat` is 5 seconds by default;
    `hwm` has no effect.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        serializer: serializers.Serializer = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        options.setdefault("heartbeat", HEARTBEAT)
        self.timeout = options.get("timeout", -1)
        self._sender = secrets.randbits(63)
        self._connections = itertools.count(1)
        self._identifiers = itertools.count(1)
        self._windows: dict[bytes, Window] = {}
        self._orphans: list[tuple[int, Unacknowledged]] = []  # with their connections
        self._sent_since_read = 0
        self._seen_changes = 0
        super().__init__(zmq.ROUTER if bind else zmq.DEALER, bind, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)
        self._max_bytes = self.socket.limits.message_bytes - HEAD_BYTES
        if not bind:
            self._send_hello(b"")

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.sndhwm = 0  # bounded by the window; a reached high-water mark stalls heartbeats
        raw.rcvhwm, raw.maxmsgsize = _MAX_UNREAD, _MAX_ANSWER_BYTES
        raw.linger = 0
        if self._bind:
            raw.router_mandatory = True
        process.close_at_exit(self)

    def send(self, msg: Any, timeout: float | None = None) -> None:
        """Send one message; `msg` may be changed afterwards.

        Raises ZmqTimeoutError (the message is not sent then) if there is no room in the window, or no
        acknowledgement, for `timeout` seconds, by default the socket's; AuthenticationError, EncodeError.
        """
        payload = msg if self._encode is None else self._encode(msg)
        if type(payload) is bytes:
            nbytes = len(payload)
        else:
            payload = own_copy(payload)
            nbytes = sum(map(size, payload)) if isinstance(payload, Parts) else size(payload)
            if isinstance(payload, Parts) and len(payload) >= MAX_PARTS:
                raise MessageTooLargeError(
                    f"{self.address}: cannot send a message of {len(payload)} parts; at most {MAX_PARTS - 1}"
                )
        if nbytes > self._max_bytes:
            raise MessageTooLargeError(
                f"{self.address}: cannot send a message of {nbytes} bytes with a head of {HEAD_BYTES},"
                f" more than Limits.message_bytes ({self.socket.limits.message_bytes})"
            )
        timeout = self.timeout if timeout is None else timeout
        wire = self._wire
        with wire:
            self._sent_since_read += 1
            if self._sent_since_read >= _READ_EVERY or wire.link.changes != self._seen_changes:
                self._read_answers()
            if timeout >= 0:
                self._refuse_if_stalled(timeout)
            window = None if self._orphans else self._window_for(nbytes)
            if window is None:
                window = self._wait_for_room(nbytes, timeout)
            flags = DETACHED if nbytes >= ZERO_COPY and type(payload) is bytes else 0
            self._send_frames(window, window.add(next(self._identifiers), payload, flags))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all messages are acknowledged; `timeout` and errors as for `send`."""
        timeout = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        with self._wire:
            self._read_answers()
            while self.unacknowledged:
                self._wait(deadline, timeout, f"{self.unacknowledged} acknowledgements")

    @property
    def unacknowledged(self) -> int:
        """Return the number of unacknowledged messages."""
        return sum(len(window.unfinished) for window in self._windows.values()) + len(self._orphans)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:  # type: ignore[override]
        """Flush for up to `timeout` seconds and close; return whether all messages are acknowledged."""
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
        """Wait briefly for acknowledgements; return True to be called again."""
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
        log.warning(
            "%s: closed with %d unacknowledged messages, which may be lost",
            self.address,
            self.unacknowledged,
        )

    def in_use(self) -> bool:
        """Return False: at exit caraml closes the Wire by itself, and this object through `close_at_exit`."""
        return False

    def _window_for(self, nbytes: int) -> Window | None:
        windows = self._windows
        if len(windows) == 1:
            (window,) = windows.values()
            return window if window.has_room(nbytes) else None
        with_room = [window for window in windows.values() if window.has_room(nbytes)]
        return min(with_room, key=_unfinished_count, default=None)

    def _wait_for_room(self, nbytes: int, timeout: float) -> Window:
        deadline = time.monotonic() + timeout
        while self._orphans or (window := self._window_for(nbytes)) is None:
            self._wait(deadline, timeout, "a receiver with room")
        return window

    def _wait(self, deadline: float, timeout: float, waited_for: str) -> None:
        """Handle the next message of a receiver; ask for its progress if none comes in a short time."""
        left = deadline - time.monotonic() if timeout >= 0 else 1.0
        if left <= 0:
            raise self._wire.timeout_error(waited_for, timeout)
        try:
            frame, rest = self._wire.receive(min(left, self._wire.slice_ms / 1000), waited_for)
        except ZmqTimeoutError:
            self._after_silence()
        except MalformedMessageError as error:
            self._reject(error)
        else:
            self._handle_answer(frame, rest)
        self._read_answers()

    def _refuse_if_stalled(self, timeout: float) -> None:
        for window in self._windows.values():
            if window.unfinished and time.monotonic() - window.moved_at > timeout:
                self._read_answers()
                if window.unfinished and time.monotonic() - window.moved_at > timeout:
                    self._after_silence()
                    raise self._wire.timeout_error(
                        f"an acknowledgement of {len(window.unfinished)} messages", timeout
                    )

    def _read_answers(self) -> None:
        self._sent_since_read = 0
        wire = self._wire
        while (frame := wire.receive_now()) is not None:
            try:
                self._handle_answer(frame, wire.receive_rest() if frame.more else [])
            except MalformedMessageError as error:
                self._reject(error)
        if wire.link.fault is not None:
            raise wire.link.fault
        if wire.link.changes != self._seen_changes:
            self._seen_changes = wire.link.changes
            for window in list(self._windows.values()):
                if window.unfinished or not self._bind:
                    self._send_hello(window.peer)

    def _handle_answer(self, frame: zmq.Frame, rest: list[zmq.Frame]) -> None:
        peer = b""
        if self._bind:
            if not rest:
                raise MalformedMessageError("an empty message")
            peer, frame = frame.bytes, rest[0]
        head = read_head(frame.buffer)
        if head is None:
            raise MalformedMessageError("the answer is not from a ZmqReceiver")
        if head.kind == READY:
            self._handle_ready(peer, head)
        elif (window := self._windows.get(peer)) is not None and head.session == window.session:
            if head.kind == WELCOME:
                self._note_receiver(window, frame.bytes[HEAD_BYTES : HEAD_BYTES + NAME_BYTES])
            self._handle_progress(window, head)

    def _handle_ready(self, peer: bytes, head: Head) -> None:
        """Handle a receiver that has connected; it may have finished messages of a former connection."""
        if peer in self._windows or not self._bind:
            return
        self._send_hello(peer)
        if head.sender != self._sender:
            return
        for window in list(self._windows.values()):
            if window.connection == head.connection:
                window.finish(head.first)
                self._drop_receiver(window)
        self._orphans = [
            (connection, message)
            for connection, message in self._orphans
            if connection != head.connection or message.sequence > head.first
        ]

    def _note_receiver(self, window: Window, receiver: bytes) -> None:
        if window.receiver not in (b"", receiver):
            window.mark_redelivered()
        window.receiver = receiver

    def _handle_progress(self, window: Window, head: Head) -> None:
        window.finish(head.second)
        if head.kind == WELCOME:
            if window.max_messages == 0 or not window.unfinished:
                window.moved_at = time.monotonic()
            window.max_messages, window.max_bytes = head.count, head.window_bytes
            for message in list(window.unfinished):
                if head.first < message.sequence <= head.asked:
                    self._send_frames(window, message.frames)
        if self._orphans:
            self._resend_orphans()

    def _send_hello(self, peer: bytes) -> None:
        window = self._windows.get(peer)
        if window is None:
            window = self._windows[peer] = Window(peer, self._sender, next(self._connections))
        lowest = window.unfinished[0].sequence if window.unfinished else window.next_sequence
        window.asked_at = time.monotonic()
        self._send_frames(window, pack_head(HELLO, window.session, lowest, asked=window.next_sequence - 1))

    def _after_silence(self) -> None:
        """Ask receivers with unacknowledged messages for their progress, which also finds dead ones."""
        now = time.monotonic()
        for window in list(self._windows.values()):
            if (window.unfinished or not window.max_messages) and now - window.asked_at > ASK_AGAIN / 2:
                self._send_hello(window.peer)
        if self._orphans:
            self._resend_orphans()

    def _send_frames(self, window: Window, frames: Any) -> None:
        try:
            if window.peer:
                self._wire.send_part(window.peer, zmq.SNDMORE, True, None)
            if type(frames) is bytes:
                self._wire.send_part(frames, 0, True, None)
            else:
                self._wire.send_parts(frames, None, copy=False)
        except SocketError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._drop_receiver(window)

    def _drop_receiver(self, window: Window) -> None:
        """Forget a lost receiver, and send its unfinished messages to others."""
        if self._windows.pop(window.peer, None) is not None:
            self._orphans += [(window.connection, message) for message in window.unfinished]
            self._orphans.sort(key=_orphan_identifier)
            self._resend_orphans()

    def _resend_orphans(self) -> None:
        while self._orphans:
            _, message = self._orphans[0]
            window = self._window_for(message.nbytes)
            if window is None:
                return
            self._orphans.pop(0)
            payload, flags = payload_of(message)
            self._send_frames(window, window.add(message.identifier, payload, flags | REDELIVERED))


def _orphan_identifier(orphan: tuple[int, Unacknowledged]) -> int:
    return orphan[1].identifier


def _unfinished_count(window: Window) -> int:
    return len(window.unfinished)
