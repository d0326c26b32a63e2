"""ZmqReceiver: acknowledged delivery, the receiving side; see sender.py for the promise.

The sender forgets a message when the receiver reports it as finished. With `finish='received'` that is when
`recv` returns it; with `finish='processed'` at the next `recv` or at `close`, or when the loop's handler
returns or raises, so that the message of a receiver that is killed in between goes to another one.

protocol.py tells what the fields of a head mean in each kind of frame.
"""

import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Literal, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import MAGIC, Inline
from caraml.errors import MalformedMessageError, ZmqTimeoutError
from caraml.transport.wire import LARGE
from caraml.utils.serializer import get_deserializer
from caraml.zmq.acknowledged.protocol import (
    ACK,
    DATA,
    DETACHED,
    EVERYTHING,
    HEAD_BYTES,
    HELLO,
    NAME_BYTES,
    READY,
    REDELIVERED,
    WELCOME,
    Head,
    pack_head,
    read_head,
    unpack_head,
)
from caraml.zmq.acknowledged.sender import HEARTBEAT
from caraml.zmq.endpoint import EndpointOptions, LoopingEndpoint

WINDOW = 1024
WINDOW_BYTES = 16 << 20
_DRAINED_AT_ONCE = range(64)
_NOBLOCK = int(zmq.NOBLOCK)
_SESSIONS = 4096
_ACKNOWLEDGE_EVERY = 0.05  # seconds, while fetched messages are returned
_SPARE_MESSAGES = 1000  # beyond the window, such as HELLO
_NO_SESSION = 0, 0


class _Session:
    """The progress of one sender's connection; `gap`: messages were lost, and are requested again."""

    def __init__(self, key: tuple[int, int], peer: bytes, received: int) -> None:
        self.key = key
        self.peer = peer
        self.gap = False
        self.received = self.finished = received


class ZmqReceiver(LoopingEndpoint):
    """Receives from senders; binds unless `bind=False`. It takes the keywords of ZmqSocket, and:

    `deserializer`, `callback(socket)`, `timeout`, `finish` (see above), and `window` messages and
    `window_bytes` that one sender may have unacknowledged. After a `recv`, `sender` and `identifier` identify
    the message, and `redelivered` tells whether a receiver that died may have had it. `duplicates` counts the
    dropped messages that had come before over the same connection. `hwm` has no effect.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        deserializer: serializers.Serializer = None,
        finish: Literal["received", "processed"] = "received",
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
        **options: Unpack[EndpointOptions],
    ) -> None:
        if finish not in ("received", "processed"):
            raise ValueError(f"invalid finish {finish!r}; expected one of received, processed")
        options.setdefault("heartbeat", HEARTBEAT)
        self.sender = self.identifier = 0
        self.redelivered = False
        self.duplicates = 0
        self._processed = finish == "processed"
        self._window = min(window, (1 << 16) - 1), window_bytes
        self._sessions: OrderedDict[tuple[int, int], _Session] = OrderedDict()
        self._queue: deque[tuple[_Session, int, int, int, Any, Any]] = deque()
        self._last_session: _Session | None = None
        self._in_hand: tuple[_Session, int] | None = None  # the message that the program processes
        self._to_acknowledge: dict[tuple[int, int], _Session] = {}
        self._by_peer: dict[bytes, _Session] = {}
        self._name = secrets.token_bytes(NAME_BYTES)
        self._seen_handshakes = -1
        self._acknowledge_at = 0.0
        super().__init__(zmq.ROUTER if bind else zmq.DEALER, bind, options)
        self._decode = serializers.decoder(deserializer, self.socket)
        self.deserializer = get_deserializer(deserializer)
        self._raw = deserializer is None
        if not bind:
            with self._wire:
                self._send_ready()

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        # Larger than the window of a sender: a reached high-water mark stalls heartbeats.
        raw.rcvhwm = raw.sndhwm = 2 * self._window[0] + _SPARE_MESSAGES
        self.socket.max_unread_bytes = max(
            self.socket.limits.unread_bytes, 2 * self.socket.limits.message_bytes + self._window[1]
        )
        raw.linger = 1000

    def recv(self, timeout: float | None = None) -> Any:
        """Return the next message. Raises ZmqTimeoutError, AuthenticationError.

        `timeout` in seconds, negative for ever; by default the socket's.
        """
        deadline = 0.0
        with self._wire:
            if self._in_hand is not None:
                self._finish_in_hand()
            if self._to_acknowledge and monotonic() >= self._acknowledge_at:
                self._catch_up()
            while True:
                if not self._queue:
                    timeout = self._wire.timeout if timeout is None else timeout
                    deadline = deadline or monotonic() + timeout
                    self._fill(timeout, deadline)
                session, sequence, identifier, flags, frame, rest = self._queue.popleft()
                try:
                    data = frame if type(frame) is bytes else self._decode(frame, rest)
                except MalformedMessageError as error:
                    self._finish(session, sequence)
                    self._reject(error)
                    continue
                except Exception:
                    self._finish(session, sequence)  # from the program's own deserializer
                    raise
                self.sender, self.identifier = session.key[0], identifier
                self.redelivered = flags & REDELIVERED > 0
                if self._processed:
                    self._in_hand = session, sequence
                else:
                    session.finished = sequence
                    self._to_acknowledge[session.key] = session
                    if not self._queue:
                        self._acknowledge()
                return data

    def start_loop(self, handler: Callable[[Any], Any], blocking: bool = False) -> threading.Thread | None:
        """Start the loop; a message is finished when the handler returns or raises."""
        self._processed = True
        return super().start_loop(handler, blocking)

    def close(self, linger: float | None = 1.0) -> None:
        """Stop the loop, acknowledge the received messages (the current one too), and close."""
        self._join(1.0)
        if not self.socket.unwrap().closed and not self._wire.in_use():
            with self._wire:
                self._finish_in_hand()
                self._acknowledge()
        super().close(linger)

    def _finish_in_hand(self) -> None:
        if self._in_hand is not None:
            self._finish(*self._in_hand)
            self._in_hand = None

    def _finish(self, session: _Session, sequence: int) -> None:
        """Note that the messages of a session are finished up to this one."""
        session.finished = sequence
        self._to_acknowledge[session.key] = session

    def _acknowledge(self) -> None:
        for session in self._to_acknowledge.values():
            self._send_progress(session, ACK)
        self._to_acknowledge.clear()

    def _send_progress(self, session: _Session, kind: int, asked: int = 0) -> None:
        head = pack_head(kind, session.key, session.received, session.finished, *self._window, asked)
        if session.peer:
            self._wire.send_part(session.peer, zmq.SNDMORE, copy=True, timeout=0)
        head = head + self._name if kind == WELCOME else head
        self._wire.send_part(head, 0, copy=True, timeout=0)

    def _send_ready(self) -> None:
        """Send READY to a binding sender, with the progress of the former connection."""
        self._seen_handshakes = self._wire.link.handshakes
        session = self._by_peer.get(b"")
        key, finished = (session.key, session.finished) if session is not None else (_NO_SESSION, 0)
        self._wire.send_part(pack_head(READY, key, finished), 0, copy=True, timeout=0)

    def _catch_up(self) -> None:
        """Acknowledge, and read new messages, while fetched ones are returned slowly."""
        self._acknowledge()
        if len(self._queue) < self._window[0]:
            try:
                self._drain()
            except MalformedMessageError as error:
                self._reject(error)
        self._acknowledge_at = monotonic() + _ACKNOWLEDGE_EVERY

    def _fill(self, timeout: float, deadline: float) -> None:
        """Wait for a message until the deadline, and fetch those that have arrived with it."""
        wire = self._wire
        left = timeout
        while True:
            self._acknowledge()
            try:
                wait = wire.slice_ms / 1000
                self._take_message(*wire.receive(min(left, wait) if timeout >= 0 else wait, "a message"))
                self._drain()
            except MalformedMessageError as error:
                self._reject(error)
            except ZmqTimeoutError:
                if not self._bind and self._seen_handshakes != wire.link.handshakes:
                    self._send_ready()  # nothing of the former connection is unread
            if self._queue:
                self._acknowledge_at = monotonic() + _ACKNOWLEDGE_EVERY
                return
            left = max(0.0, deadline - monotonic())
            if left == 0.0 <= timeout:
                raise self._timeout_error("a message", timeout)

    def _drain(self) -> None:
        """Fetch messages that have arrived, up to a bound. Raises MalformedMessageError."""
        wire = self._wire
        receive = wire.receive_part
        try:
            for _ in _DRAINED_AT_ONCE:
                if not self._bind:
                    frame = receive(_NOBLOCK, False)
                    self._take_message(frame, wire.receive_rest() if frame.more else [])
                    continue
                peer = receive(_NOBLOCK)
                frame = receive(0, False)  # a ROUTER's message has a part after the identity
                rest = wire.receive_rest() if frame.more else []
                if rest or len(frame) >= LARGE or not self._take_next(peer, frame.bytes):
                    self._take_from(peer, frame, rest)
        except zmq.Again:
            return
        except zmq.ZMQError as error:
            raise wire.socket_error(error) from error

    def _take_next(self, peer: bytes, whole: bytes) -> bool:
        """Queue a small message that follows the last one in its session; return False for others."""
        session = self._last_session
        if session is None or session.peer != peer or len(whole) < HEAD_BYTES:
            return False
        magic, kind, flags, connection, sender, sequence, identifier, _, _ = unpack_head(whole)
        if (
            sequence != session.received + 1
            or kind != DATA
            or magic != MAGIC
            or session.key != (sender, connection)
        ):
            return False
        session.received = sequence
        session.gap = False
        payload = whole[HEAD_BYTES:]
        self._queue.append(
            (session, sequence, identifier, flags, payload if self._raw else Inline(payload), ())
        )
        return True

    def _take_message(self, frame: Any, rest: list[zmq.Frame]) -> None:
        peer = b""
        if self._bind:
            if not rest:
                self._reject(MalformedMessageError("an empty message"))
                return
            peer, frame, rest = frame.bytes, rest[0], rest[1:]
        self._take_from(peer, frame, rest)

    def _payload(self, head: Head, whole: Any, rest: list[zmq.Frame]) -> tuple[Any, Any]:
        """Return the first frame of a message, and its other frames."""
        return (rest[0], rest[1:]) if head.count & DETACHED and rest else (Inline(whole[HEAD_BYTES:]), rest)

    def _take_from(self, peer: bytes, frame: Any, rest: list[zmq.Frame]) -> None:
        whole = frame.bytes if len(frame) < LARGE else frame.buffer
        head = read_head(whole)
        if head is None or head.kind not in (DATA, HELLO):
            self._reject(MalformedMessageError("the sender is not a ZmqSender"))
            return
        session = self._sessions.get(head.session)
        if head.first < 1:
            self._reject(MalformedMessageError("the sender is not a ZmqSender: it numbers messages from 0"))
        elif head.kind == HELLO:
            self._handle_hello(session, head, peer)
        elif session is None:
            self._reject(
                MalformedMessageError(
                    "the message belongs to no session here; a ZmqSender repeats it after a new HELLO"
                )
            )
        elif head.first == session.received + 1:
            session.received += 1
            session.gap = False
            self._last_session = session
            payload = self._payload(head, whole, rest)
            self._queue.append((session, head.first, head.second, head.count, *payload))
        elif head.first <= session.received:
            self.duplicates += 1
            self._to_acknowledge[session.key] = session
        elif not session.gap:
            session.gap = True
            self._send_progress(session, WELCOME, EVERYTHING)

    def _handle_hello(self, session: _Session | None, head: Head, peer: bytes) -> None:
        if session is None:
            session = self._new_session(head, peer)
        if session.peer != peer:  # the sender has reconnected
            self._forget(self._by_peer.get(peer))
            self._by_peer.pop(session.peer, None)
            session.peer = peer
            self._by_peer[peer] = session
        self._sessions.move_to_end(head.session)
        session.gap = False
        self._send_progress(session, WELCOME, head.asked)

    def _new_session(self, head: Head, peer: bytes) -> _Session:
        """Return a session that replaces the former one of the connection, so that a peer has only one."""
        self._forget(self._by_peer.get(peer))
        if len(self._sessions) >= _SESSIONS:
            self._forget(next(iter(self._sessions.values())))
        session = _Session(head.session, peer, head.first - 1)
        self._sessions[head.session] = self._by_peer[peer] = session
        return session

    def _forget(self, session: _Session | None) -> None:
        self._last_session = None
        if session is not None:
            del self._sessions[session.key]
            self._by_peer.pop(session.peer, None)
