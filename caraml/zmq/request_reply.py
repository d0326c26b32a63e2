"""ZmqClient and ZmqServer: a request and its answer, one at a time; `timeout` sets a deadline.

>>> server = ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
>>> _ = server.start_loop(lambda request: request["x"] * 2)
>>> client = ZmqClient(address=server.address, serializer="msgpack", deserializer="msgpack", timeout=5)
>>> client.request({"x": 21})
42
>>> client.request({})
Traceback (most recent call last):
caraml.errors.RemoteError: ...: the server could not answer: KeyError: 'x'
>>> client.close(); server.close()

**Guarantee.** `request` returns the answer to this very request, or raises: an answer that arrives after its
deadline is never taken for that of the next request. A request that timed out may have been served, and
repeating it may serve it twice. The client can be used again after every error.
"""

from collections.abc import Callable
from typing import Any, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import FAILURE, Parts
from caraml.errors import MalformedMessageError, RemoteError
from caraml.transport.wire import Wire
from caraml.utils.serializer import get_deserializer, get_serializer
from caraml.zmq.endpoint import Endpoint, EndpointOptions, LoopingEndpoint

_MAX_REASON = 2000
_MAX_UNREAD_REQUESTS = 16  # of one connection; behind a proxy it carries many clients
_MARK_BYTES = len(FAILURE)


class ZmqClient(Endpoint):
    """Sends requests; connects unless `bind=True`. It takes the keywords of ZmqSocket, and:

    `timeout` seconds to wait for an answer (negative: for ever, or until the server is lost), `serializer` of
    requests, `deserializer` of answers, `callback(socket)` called before every connect (after a timeout the
    client opens a new socket to the same address). With `heartbeat=` seconds, a server that is frozen or gone
    is noticed within three heartbeats.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        serializer: serializers.Serializer = None,
        deserializer: serializers.Serializer = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        self.timeout = options.get("timeout", -1)
        self._closed = False
        super().__init__(zmq.REQ, bind, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self._decode = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode is serializers.decode_bytes
        self.serializer, self.deserializer = get_serializer(serializer), get_deserializer(deserializer)
        if bind:  # a new socket binds the same port again
            self._options["address"] = self.address

    @property
    def host(self) -> str | None:
        """Return the host of a TCP address, else None."""
        return self.socket.host

    @property
    def port(self) -> int | None:
        """Return the port of a TCP address, else None."""
        return self.socket.port

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.req_correlate = True
        raw.linger = 0
        if self.socket.heartbeat is not None:
            self._wire.slice_ms = max(10, min(self._wire.slice_ms, int(self.socket.heartbeat * 250)))

    def request(self, msg: Any, timeout: float | None = None) -> Any:
        """Return the server's answer. `timeout`: seconds, negative for ever; by default the client's.

        Raises ZmqTimeoutError (PeerLostError when the connection to the server is lost), RemoteError when the
        server's handler raised, AuthenticationError, EncodeError; MalformedMessageError for an answer that
        cannot be read, and for the next request after a server that does not use caraml answered in several
        parts.
        """
        wire = self._wire
        if wire.closing and not self._closed:  # the last request dropped its socket
            self._open(self.timeout)
            wire = self._wire
        message = msg if self._encode is None else self._encode(msg)
        timeout = self.timeout if timeout is None else timeout
        try:
            wire.turns.pop()  # `with wire`, without its calls
        except IndexError:
            raise wire.unusable_error() from None
        answered = False
        try:
            link = wire.link
            wire.lost_before = link.lost
            if type(message) is bytes and len(message) < wire.unchecked_bytes and link.fault is None:
                try:
                    wire.put(message)
                except zmq.ZMQError as error:
                    wire.retry_send(message, timeout, error)
            else:
                self._send_large(message, timeout)
            frame, rest = wire.receive(timeout, "an answer")
            answered = True
            if self._gives_bytes and type(frame) is bytes and len(frame) != _MARK_BYTES:
                return frame  # bytes come without `rest`: the next request reports parts left unread
            return self._read_answer(frame, rest)
        except MalformedMessageError as error:
            answered = True
            self._reject(error)
            raise
        finally:
            wire.turns.append(1)
            if not answered:
                wire.close(0)  # so that a late answer is lost

    def _read_answer(self, frame: Any, rest: list[zmq.Frame]) -> Any:
        """Return the decoded answer. Raises RemoteError, MalformedMessageError."""
        if (
            len(frame) == _MARK_BYTES
            and bytes(frame) == FAILURE
            and (rest := self._wire.receive_missing_rest(frame, rest))
        ):
            reason = rest[0].bytes.decode("utf-8", "replace")
            raise RemoteError(f"{self.address}: the server could not answer: {reason}")
        try:
            return self._decode(frame, rest)
        except MalformedMessageError as error:
            return _decode_with_rest(self._wire, self._decode, frame, rest, error)

    def _send_large(self, message: Any, timeout: float) -> None:
        wire = self._wire
        if wire.link.fault is not None:
            raise wire.link.fault
        wire.check_size(message)
        wire.send_parts(message, timeout, copy=True)

    def close(self, linger: float | None = None) -> None:
        """Close for good: further requests raise ClosedError. `linger` as for Endpoint.close."""
        self._closed = True
        super().close(linger)


class ZmqServer(LoopingEndpoint):
    """Answers requests; binds unless `bind=False`. It takes the keywords of ZmqSocket, and:

    `serializer` of answers, `deserializer` of requests, `callback(socket)` called before bind or connect,
    `timeout` seconds that one `recv` may block (negative: for ever).

    Either call `recv` and `send` strictly in turn, or start a loop, which answers every request with
    `handler(request)`. When a request cannot be decoded or the handler raises, the client's `request` raises
    RemoteError with the reason, and the server continues.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        serializer: serializers.Serializer = None,
        deserializer: serializers.Serializer = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        super().__init__(zmq.REP, bind, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self._decode = serializers.decoder(deserializer, self.socket)
        self._gives_bytes = self._decode is serializers.decode_bytes
        self.serializer, self.deserializer = get_serializer(serializer), get_deserializer(deserializer)
        self._may_send = False

    def _prepare(self) -> None:
        if self._options.get("hwm") is None:  # a client waits for its answer before it sends more
            self.socket.unwrap().rcvhwm = min(_MAX_UNREAD_REQUESTS, self.socket.limits.unread_messages())

    def recv(self, timeout: float | None = None) -> Any:
        """Return the next request. Raises ValueError when the last one is not answered yet, ZmqTimeoutError.

        `timeout`: seconds, negative for ever; by default the server's.
        """
        if self._may_send:
            raise ValueError("recv() and send() must be paired: send() the answer to the last request first")
        wire = self._wire
        data = None
        if wire.single_frame and self._gives_bytes and timeout is None and wire.timeout < 0:
            data = wire.receive_quickly()
        if data is None:
            # Plain bytes have no other frames, and no deserializer that raises.
            read = self._decode if self._gives_bytes else self._decode_request
            data = self._next(read, timeout, "a request")
        self._may_send = True
        return data

    def send(self, msg: Any) -> None:
        """Answer the last request; `msg` may be changed afterwards. Raises ValueError when there is none."""
        self._require_request()
        self._answer(msg if self._encode is None else self._encode(msg))

    def send_error(self, reason: str) -> None:
        """Answer the last request with an error: the client raises RemoteError with this reason."""
        self._require_request()
        self._answer(_failure(reason))

    def _require_request(self) -> None:
        if not self._may_send:
            raise ValueError("recv() and send() must be paired: recv() a request first")

    def _answer(self, message: Any) -> None:
        try:
            self._wire.send(message)
        except MalformedMessageError as error:  # a foreign client's request of several parts
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
                return _decode_with_rest(self._wire, self._decode, frame, rest, error)
        except MalformedMessageError:
            raise
        except Exception as error:  # from the program's own deserializer
            self._wire.receive_missing_rest(frame, rest)
            raise MalformedMessageError(f"the deserializer raised {type(error).__name__}: {error}") from error

    def _after_rejection(self, error: MalformedMessageError) -> None:
        self._wire.send_parts(_unreadable(error), None, copy=True)


def _failure(reason: str) -> Parts:
    return Parts((FAILURE, reason[:_MAX_REASON].encode("utf-8", "replace")))


def _unreadable(error: MalformedMessageError) -> Parts:
    return _failure(f"the request cannot be read: {error}")


def _decode_with_rest(
    wire: Wire, decode: serializers.Decode, frame: Any, rest: list[zmq.Frame], error: MalformedMessageError
) -> Any:
    """Decode a message again with its other frames. Raises `error` if it has none."""
    more = [] if rest else wire.receive_missing_rest(frame, rest)
    if not more:
        raise error
    return decode(frame, more)
