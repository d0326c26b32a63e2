"""ZmqPub sends every message to all subscribers of its topic; see subscriber.py for the other side.

>>> from caraml.zmq.pubsub.subscriber import ZmqSub
>>> publisher = ZmqPub(port=0, serializer="msgpack")
>>> subscriber = ZmqSub(address=publisher.address, topic="loss", deserializer="msgpack")
>>> publisher.wait_subscribers(1, timeout=5)
>>> publisher.pub("loss", 0.5)
>>> subscriber.recv(timeout=5), subscriber.topic
(0.5, b'loss')
>>> publisher.close(); subscriber.close()

**Guarantee.** Subscribers get, in order, the messages that are published after their subscription arrived
(`wait_subscribers`), as long as they keep up. The publisher queues at most `budget_bytes` for each subscriber
(or twice that, when messages become much larger than before); `policy` says what happens then:

* `'drop'`: new messages are dropped for subscribers whose queue is full. Each ZmqSub counts its dropped
  messages in `missed`;
* `'block'`: `pub` waits, up to its deadline, until every queue has room. Nothing is dropped, and the slowest
  subscriber sets the pace.

A ZmqSub with `policy='latest'` returns only the newest message of all its topics.
"""

import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import Parts, size, view
from caraml.errors import CaramlError, MalformedMessageError
from caraml.limits import MAX_PREFIX_BYTES
from caraml.transport.wire import ZERO_COPY
from caraml.utils.serializer import get_serializer, str2bytes
from caraml.zmq.endpoint import Endpoint, EndpointOptions
from caraml.zmq.pubsub.subscriptions import SubscriptionBudget, Subscriptions
from caraml.zmq.pubsub.topic_frame import (
    DETACHED,
    HEADER_BYTES,
    INLINE,
    LAST_NUMBER,
    PARTS,
    check_topic,
    header,
    headers,
    start,
)

Policy: TypeAlias = Literal["drop", "block"]

BUDGET_BYTES = 64 << 20
_MAX_QUEUED = 100_000
_QUEUED_OVERHEAD = 64
_MAX_TOPICS = 1 << 16
_SMALLEST = 1 << 10
_HEADERS_PREPARED = 256  # on all topics together; subscriptions are read when they are used up
_MIN_HEADERS_PREPARED = 8
_READ_AT_ONCE = 1000  # subscriptions, which take 3 ms
_HANDSHAKE_BYTES = 320
_HANDSHAKE_WITH_KEYS_BYTES = 1 << 10
_RECEIVE_BUFFER = 1 << 13
_MAX_SUBSCRIPTIONS_AT_ONCE = 16  # in ZeroMQ's queue of a connection; SubscriptionBudget sets the limit
_SUBSCRIBE_OVERHEAD = 16  # beside the topic


class _Topic:
    """A topic of a publisher, with the prepared headers of its next messages of one frame.

    Its messages are a stream with numbers of its own, so that subscribers count missed messages by topic.
    """

    def __init__(self, name: bytes, max_prepared: int) -> None:
        self.name = name
        self.max_prepared = max_prepared
        self.stream = secrets.randbits(32)
        self.start = start(name, INLINE, self.stream)
        self.set_next_number(0)

    def set_next_number(self, number: int) -> None:
        """Number the next message `number`."""
        # The first number after `headers`, whose numbers differ in the last byte only.
        self.end_of_headers = number + min(self.max_prepared, 256 - number % 256)
        self.headers: Iterator[bytes] = headers(self.start, number & LAST_NUMBER, self.max_prepared)

    def next_headers(self) -> bytes:
        """Prepare more headers and return the first."""
        self.set_next_number(self.end_of_headers & LAST_NUMBER)
        return next(self.headers)

    def next_number(self) -> int:
        """Return the number of the next message, whose header is not one of the prepared ones."""
        number = self.number_of(next(self.headers, None) or self.next_headers())
        self.set_next_number(number + 1)
        return number

    def take_back(self, frame: Any) -> None:
        """Reuse the number of a frame that was not sent."""
        self.set_next_number(self.number_of(frame[0] if isinstance(frame, Parts) else frame))

    def number_of(self, frame: Any) -> int:
        """Return the number in a frame of this topic."""
        end = len(self.name) + HEADER_BYTES
        return int.from_bytes(frame[end - 4 : end], "big")


class ZmqPub(Endpoint):
    """Publishes; binds unless `bind=False`. It takes the keywords of ZmqSocket, and:

    `serializer`, `callback(socket)`, `policy` and `budget_bytes` (see above; an explicit `hwm` replaces the
    budget), `timeout` seconds that `pub` may block with policy 'block'.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        serializer: serializers.Serializer = None,
        policy: Policy = "drop",
        budget_bytes: int = BUDGET_BYTES,
        **options: Unpack[EndpointOptions],
    ) -> None:
        if policy not in ("drop", "block"):
            raise ValueError(f"invalid policy {policy!r}; expected one of drop, block")
        self.policy: Policy = policy
        self.budget_bytes = budget_bytes
        self._fixed_hwm = options.get("hwm") is not None
        self._largest, self._longest_header = _SMALLEST, 0
        self._hwm = 0
        self._fast_bytes = -1  # messages of up to so many bytes take the fast path of `pub`
        self._topics: dict[str | bytes, _Topic] = {}
        self._subscription_budget: SubscriptionBudget | None = None
        self._unread_subscriptions = False  # the next message reads them
        super().__init__(zmq.XPUB, bind, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.setsockopt(zmq.XPUB_VERBOSER, 1)
        raw.setsockopt(zmq.XPUB_NODROP, int(self.policy == "block"))
        self._subscriptions = Subscriptions()
        handshake = _HANDSHAKE_BYTES if self.socket.keys is None else _HANDSHAKE_WITH_KEYS_BYTES
        raw.maxmsgsize = max(handshake, MAX_PREFIX_BYTES + _SUBSCRIBE_OVERHEAD)
        raw.rcvbuf = _RECEIVE_BUFFER
        if not self._fixed_hwm:
            raw.rcvhwm = _MAX_SUBSCRIPTIONS_AT_ONCE
        if self.socket.scheme == "tcp" and sys.platform == "linux":
            self.socket.link.budget = self._subscription_budget = SubscriptionBudget(self)
        self._make_room(0)

    def idle(self) -> bool:
        """Return whether no thread is in a call of this publisher."""
        return bool(self._wire.turns)

    def disconnected(self, nbytes: int) -> None:
        """Count a subscriber that was disconnected for `nbytes` of subscriptions."""
        self._unread_subscriptions = True
        self._fast_bytes = -1
        self._reject(
            MalformedMessageError(
                f"a subscriber was disconnected: it sent {nbytes} bytes of subscriptions at once; it, or all"
                " subscribers together, sent more than the publisher accepts; subscribe to fewer topics,"
                " such as a common prefix"
            )
        )

    def pub(self, topic: str | bytes, data: Any, timeout: float | None = None) -> None:
        """Publish a message; `data` may be changed afterwards.

        `timeout`: seconds for policy 'block', negative for ever; by default the socket's.
        Raises ZmqTimeoutError with policy 'block' when a subscriber stays full, EncodeError.
        """
        message = data if self._encode is None else self._encode(data)
        known = self._topics.get(topic)
        if known is None or type(message) is not bytes or len(message) > self._fast_bytes:
            self._publish(topic, message, timeout)
            return
        wire = self._wire
        try:
            wire.turns.pop()  # `with wire`, without its calls
        except IndexError:
            raise wire.unusable_error() from None
        frame = (next(known.headers, None) or self._next_headers(known, len(message))) + message
        try:
            if wire.link.fault is not None:
                raise wire.link.fault
            try:
                wire.put(frame)
            except zmq.ZMQError as error:
                wire.retry_send(frame, timeout, error)
        except CaramlError:
            known.take_back(frame)
            raise
        finally:
            wire.turns.append(1)

    def wait_subscribers(self, n: int, timeout: float, topic: str | bytes | None = None) -> None:
        """Wait for `n` subscriptions, only to prefixes of `topic` if given.

        A subscriber of two topics counts twice. Raises ZmqTimeoutError after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (count := self.subscribers(topic)) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timeout_error(f"{n} subscriptions; there are {count}", timeout)
            with self._wire:
                self._wire.check()
                self.socket.unwrap().poll(min(100, int(min(left, 1.0) * 1000) + 1))

    def subscribers(self, topic: str | bytes | None = None) -> int:
        """Return the number of subscriptions, only to prefixes of `topic` if given."""
        self._unread_subscriptions = True
        while self._unread_subscriptions:
            with self._wire:
                self._read_subscriptions()
        return self._subscriptions.count(None if topic is None else str2bytes(topic))

    def _publish(self, topic: str | bytes, message: Any, timeout: float | None) -> None:
        """Publish the first message of a topic, or one that is large or has several parts."""
        known = self._topics.get(topic) or self._new_topic(topic)
        with self._wire:
            self._read_subscriptions()
            frame = self._frame(known, message)
        try:
            self._wire.send(frame, timeout)
        except CaramlError:
            known.take_back(frame)
            raise

    def _frame(self, topic: _Topic, message: Any) -> Any:
        parts = message if isinstance(message, Parts) else Parts((_buffer(message),))
        nbytes = len(topic.name) + HEADER_BYTES + sum(map(size, parts))
        self._make_room(nbytes)

        def framed(kind: int, data: Any = b"") -> bytes:
            return b"".join((header(topic.name, kind, topic.stream, topic.next_number()), data))

        if type(message) is bytes and len(message) < ZERO_COPY:
            return framed(INLINE, message)
        if isinstance(message, Parts):
            return Parts((framed(PARTS, view(parts[0])), *parts[1:]))
        return Parts((framed(DETACHED), *parts))

    def _new_topic(self, topic: str | bytes) -> _Topic:
        name = check_topic(str2bytes(topic))
        if len(self._topics) >= _MAX_TOPICS:
            self._topics.clear()  # new streams begin
        max_prepared = max(_MIN_HEADERS_PREPARED, _HEADERS_PREPARED // (len(self._topics) + 1))
        known = self._topics[topic] = _Topic(name, max_prepared)
        self._longest_header = max(self._longest_header, len(name) + HEADER_BYTES)
        return known

    def _next_headers(self, topic: _Topic, nbytes: int) -> bytes:
        """Read the subscriptions, and return the next header of a topic."""
        self._read_subscriptions()
        if nbytes <= self._largest // 2 - self._longest_header and self._largest > _SMALLEST:
            self._largest //= 2
            self._make_room(nbytes)
        topic.max_prepared = max(_MIN_HEADERS_PREPARED, _HEADERS_PREPARED // len(self._topics))
        return topic.next_headers()

    def _make_room(self, nbytes: int) -> None:
        """Set the high-water mark so that the queue of a subscriber stays within the budget in bytes.

        A large message sets the mark by its own size, for itself only; a small message sets it by the size of
        the largest recent small message.
        """
        if nbytes > ZERO_COPY:
            self._fast_bytes = -1  # so that the next message sets the mark again
            self._set_hwm(nbytes)
            return
        self._largest = max(self._largest, 1 << (nbytes - 1).bit_length())
        fits = min(self._wire.unchecked_bytes - 1, self._largest - self._longest_header)
        self._fast_bytes = -1 if self._unread_subscriptions else fits
        self._set_hwm(self._largest)

    def _set_hwm(self, nbytes: int) -> None:
        queued = max(1, min(_MAX_QUEUED, self.budget_bytes // (nbytes + _QUEUED_OVERHEAD)))
        if queued != self._hwm and not self._fixed_hwm:
            self.socket.unwrap().sndhwm = self._hwm = queued

    def _read_subscriptions(self) -> None:
        for _ in range(_READ_AT_ONCE):
            if (frame := self._wire.receive_now()) is None:
                self._unread_subscriptions = False
                if self._subscription_budget is not None:
                    self._subscription_budget.reads += 1
                return
            try:
                if frame.more:
                    self._wire.receive_rest()
                    raise MalformedMessageError(
                        "a peer sent the publisher a message of several parts, which is not a subscription"
                    )
                self._subscriptions.take(frame)
            except MalformedMessageError as error:
                self._reject(error)
        self._unread_subscriptions = True
        self._fast_bytes = -1


def _buffer(message: Any) -> Any:
    """Return the message as a buffer. Raises EncodeError before the topic is sent."""
    return message if type(message) is bytes else view(message)
