"""ZmqClient and ZmqServer: a request and its answer, one at a time, each with a deadline.

>>> server = ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
>>> _ = server.start_loop(lambda request: request["x"] * 2)
>>> client = ZmqClient(address=server.address, serializer="msgpack", deserializer="msgpack", timeout=5)
>>> client.request({"x": 21})
42
>>> client.request({})
Traceback (most recent call last):
caraml.errors.RemoteError: ...: the server could not answer: KeyError: 'x'
>>> client.close(); server.close()

**Promise.** `request` gives the answer to this very request, or raises: an answer that comes after its
deadline is never taken for the next one's. A request that timed out may have been served; asking
again may serve it twice. The client can be used again after every error.
"""

import time
import weakref
from collections.abc import Callable
from typing import Any, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import FAILURE, Parts
from caraml.errors import MalformedMessageError, RemoteError
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import MORE, ZERO_COPY, Wire
from caraml.utils.serializer import get_deserializer, get_serializer
from caraml.zmq.endpoint import Endpoint, LoopingEndpoint, SocketOptions

_NOTHING: list[Any] = []
_LONGEST_REASON = 2000
_UNREAD = 16  # requests that wait on one connection; a proxy has many clients
_MARK = len(FAILURE)
_RELEASE = 1.0  # seconds a closed socket may take to let go of an array


class ZmqClient(Endpoint):
    """Asks; connects unless `bind=True`. Keywords as ZmqSocket's, and:

    `timeout` seconds to wait for an answer (negative: for ever, or until the server is lost), `serializer` of
    requests, `deserializer` of answers, `callback(socket)` called before every connect (after a timeout there
    is a new socket, at the same address). With `heartbeat=` seconds, a server that is frozen or gone is
    noticed within three of them.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        timeout: float = -1,
        serializer: serializers.Serializer = None,
        deserializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        **options: Unpack[SocketOptions],
    ) -> None:
        self.timeout = timeout
        self._closed = False
        super().__init__(zmq.REQ, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self._decode = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode is serializers.decode_bytes
        self.serializer, self.deserializer = get_serializer(serializer), get_deserializer(deserializer)
        if bind:  # where it was found once, also with port 0
            self._options["address"] = self.address

    @property
    def host(self) -> str | None:
        """Return the host of the address, if it has one."""
        return self.socket.host

    @property
    def port(self) -> int | None:
        """Return the port of the address, if it has one."""
        return self.socket.port

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.req_correlate = True
        raw.linger = 0
        if self.socket.heartbeat is not None:
            self._wire.slice_ms = max(10, min(self._wire.slice_ms, int(self.socket.heartbeat * 250)))

    def request(self, msg: Any, timeout: float | None = None) -> Any:
        """Return the server's answer. `timeout`: seconds, negative for ever; by default the client's.

        Arrays of `msg` of 256 KiB or more are not copied (over inproc they are: the server keeps what it is
        given); they are free again when this returns or raises.

        Raises ZmqTimeoutError (PeerLostError when the server goes away meanwhile), RemoteError when the
        server's handler raised, AuthenticationError, EncodeError; MalformedMessageError for an answer that
        cannot be read, and once after an answer of which only the first part was: a foreign server's.
        """
        wire = self._wire
        if wire.closing and not self._closed:  # given up
            self._open(self.timeout)
            wire = self._wire
        message = msg if self._encode is None else self._encode(msg)
        timeout = self.timeout if timeout is None else timeout
        try:
            wire.turns.pop()  # enter() and leave(), without the calls
        except IndexError:
            raise wire.why_not() from None
        lent = _NOTHING
        answered = False
        try:
            link = wire.link
            wire.lost_before = link.lost
            if type(message) is bytes and len(message) < ZERO_COPY and link.fault is None:
                try:
                    wire.put(message)
                except zmq.ZMQError as error:
                    wire.send_again(message, timeout, error)
            else:
                lent = self._send_large(message, timeout)
            frame, rest = wire.receive(timeout, "an answer")
            answered = True
            if self._gives_bytes and type(frame) is bytes and len(frame) != _MARK:
                return frame
            return self._read(frame, rest)
        except MalformedMessageError as error:
            answered = True
            self._reject(error)
            raise
        finally:
            wire.turns.append(1)
            if not answered:
                self._give_up(lent)

    def _read(self, frame: Any, rest: list[zmq.Frame]) -> Any:
        """Return the answer. Raises RemoteError, MalformedMessageError. Call with the turn taken."""
        if len(frame) == _MARK and bytes(frame) == FAILURE and (rest := self._wire.whole(frame, rest)):
            reason = rest[0].bytes.decode("utf-8", "replace")
            raise RemoteError(f"{self.address}: the server could not answer: {reason}")
        try:
            return self._decode(frame, rest)
        except MalformedMessageError as error:
            return _decode_whole(self._wire, self._decode, frame, rest, error)

    def _send_large(self, message: Any, timeout: float) -> "list[weakref.ref[memoryview]]":
        """Send; the views that live as long as ZeroMQ reads from them (cheaper than its trackers)."""
        wire = self._wire
        if wire.link.fault is not None:
            raise wire.link.fault
        parts = message if isinstance(message, Parts) else Parts((message,))
        sizes = wire.check_size(parts)
        shared = self.socket.scheme == "inproc"
        lent: list[weakref.ref[memoryview]] = []
        left = len(parts)
        part: Any
        for part, nbytes in zip(parts, sizes, strict=True):
            left -= 1
            if shared or nbytes < ZERO_COPY:
                wire.send_part(part, MORE if left else 0, True, timeout)
            else:
                whole = memoryview(part)
                wire.send_part(whole, MORE if left else 0, False, timeout)
                lent.append(weakref.ref(whole))
        return lent

    def _give_up(self, lent: "list[weakref.ref[memoryview]]") -> None:
        """Drop the socket, and with it the request, the answer that may still come, and the hold on the
        arrays.
        """
        self._wire.close(0)
        deadline = time.monotonic() + _RELEASE * len(lent)
        while any(whole() is not None for whole in lent) and time.monotonic() < deadline:
            time.sleep(0.001)

    def close(self, linger: float | None = None) -> None:
        """Close for good; after it `request` raises ClosedError. `linger` as of Endpoint.close."""
        self._closed = True
        super().close(linger)


class ZmqServer(LoopingEndpoint):
    """Answers; binds unless `bind=False`. Keywords as ZmqSocket's, and:

    `serializer` of answers, `deserializer` of requests, `callback(socket)` called before bind or connect,
    `timeout` seconds that one `recv` may block (negative: for ever).

    Either call `recv` and `send` strictly in turn, or start a loop, which answers every request with
    `handler(request)`. A request that cannot be decoded, and a
    handler that raises, are answered with the reason: the client's `request` raises RemoteError and the
    server goes on. So is a request of which only the first part was read: a foreign client's.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        serializer: serializers.Serializer = None,
        deserializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        timeout: float = -1,
        **options: Unpack[SocketOptions],
    ) -> None:
        super().__init__(zmq.REP, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self._decode = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode is serializers.decode_bytes
        self.serializer, self.deserializer = get_serializer(serializer), get_deserializer(deserializer)
        self._may_send = False

    def _prepare(self) -> None:
        if self._options.get("hwm") is None:  # a client waits for its answer, so more is of no use
            self.socket.unwrap().rcvhwm = min(_UNREAD, self.socket.limits.unread_messages())

    def recv(self, timeout: float | None = None) -> Any:
        """Return the next request. Raises ValueError when the last one is not answered yet, ZmqTimeoutError.

        `timeout`: seconds, negative for ever; by default the server's.
        """
        if self._may_send:
            raise ValueError("recv() and send() must be paired: send() the answer to the last request first")
        wire = self._wire
        data = None
        if wire.alone and self._gives_bytes and timeout is None and wire.timeout < 0:
            data = wire.receive_quickly()
        if data is None:
            read = self._decode if self._gives_bytes else self._decode_request
            data = self._next(read, timeout, "a request")
        self._may_send = True
        return data

    def send(self, msg: Any) -> None:
        """Answer the last request; `msg` may be changed afterwards. Raises ValueError when there is none."""
        if not self._may_send:
            raise ValueError("recv() and send() must be paired: recv() a request first")
        message = msg if self._encode is None else self._encode(msg)
        try:
            self._wire.send(message)
        except MalformedMessageError as error:  # what was taken for the request was the first part of one
            self._reject(error)
            self._wire.send(_unreadable(error))
        self._may_send = False

    def send_error(self, reason: str) -> None:
        """Answer the last request with an error: the client raises RemoteError with this reason."""
        if not self._may_send:
            raise ValueError("recv() and send() must be paired: recv() a request first")
        try:
            self._wire.send(_failure(reason))
        except MalformedMessageError as error:
            self._reject(error)
            self._wire.send(_unreadable(error))
        self._may_send = False

    def _handle(self, handler: Callable[[Any], Any], message: Any) -> None:
        try:
            self.send(handler(message))
        except Exception as error:
            self._count_failure()
            if self._may_send:
                self.send_error(f"{type(error).__name__}: {error}")

    def _decode_request(self, frame: Any, rest: list[zmq.Frame]) -> Any:
        try:
            try:
                return self._decode(frame, rest)
            except MalformedMessageError as error:
                return _decode_whole(self._wire, self._decode, frame, rest, error)
        except MalformedMessageError:
            raise
        except Exception as error:  # of the program's own deserializer
            self._wire.whole(frame, rest)
            raise MalformedMessageError(f"{type(error).__name__}: {error}") from error

    def _after_rejection(self, error: MalformedMessageError) -> None:
        self._wire.answer(_unreadable(error))


def _failure(reason: str) -> Parts:
    return Parts((FAILURE, reason[:_LONGEST_REASON].encode("utf-8", "replace")))


def _unreadable(error: MalformedMessageError) -> Parts:
    return _failure(f"the request cannot be read: {error}")


def _decode_whole(
    wire: Wire, decode: serializers.Decode, frame: Any, rest: list[zmq.Frame], error: MalformedMessageError
) -> Any:
    """Decode a message again with its other frames. Raises `error` where it has none."""
    more = [] if rest else wire.whole(frame, rest)
    if not more:
        raise error
    return decode(frame, more)
