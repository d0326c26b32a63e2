"""ZmqPub: every message to every subscriber of its topic; see subscriber.py for the other side.

>>> from caraml.zmq.pubsub.subscriber import ZmqSub
>>> publisher = ZmqPub(port=0, serializer="msgpack")
>>> subscriber = ZmqSub(address=publisher.address, topic="loss", deserializer="msgpack")
>>> publisher.wait_subscribers(1, timeout=5)
>>> publisher.pub("loss", 0.5)
>>> subscriber.recv(timeout=5), subscriber.topic
(0.5, b'loss')
>>> publisher.close(); subscriber.close()

**Promise.** Subscribers get what is published after their subscription arrived (`wait_subscribers`), in
order, as far as they keep up. For each subscriber the publisher holds at most `budget_bytes` (or twice
that, if messages become much larger than before), and beyond that, by `policy`:

* `'drop'`: new messages are dropped for the subscribers that are full; others get them. Each ZmqSub counts in
  `missed` what it was not given;
* `'latest'`: as drop; messages are one frame, which a plain ZeroMQ subscriber can conflate. A ZmqSub with
  `policy='latest'` gives only the newest of all its topics, whatever the publisher's policy: no slow motion
  behind;
* `'block'`: `pub` waits, up to its deadline, until all have room: nothing is dropped, the slowest sets the
  pace.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import Parts, join, size, view
from caraml.errors import CaramlError, MalformedMessageError, MessageTooLargeError
from caraml.limits import MAX_PARTS, MAX_TOPIC_BYTES
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import DONE, ZERO_COPY, MessageTracker
from caraml.utils.serializer import get_serializer, str2bytes
from caraml.zmq.endpoint import Endpoint, SocketOptions
from caraml.zmq.pubsub.subscriptions import SubscriptionBudget, Subscriptions
from caraml.zmq.pubsub.topic_frame import (
    DETACHED,
    HEADER_BYTES,
    INLINE,
    JOINED,
    LAST_NUMBER,
    PARTS,
    check_topic,
    header,
    headers,
    start,
)

Policy: TypeAlias = Literal["drop", "latest", "block"]

BUDGET_BYTES = 64 << 20
_MOST_QUEUED = 100_000
_QUEUED_OVERHEAD = 64
_MOST_TOPICS = 1 << 16
_SMALLEST = 1 << 10
_PREPARED = 256  # messages between two looks at the subscriptions, on all topics together
_LEAST_PREPARED = 8
_READ_AT_ONCE = 1000  # subscriptions, which take 3 ms
_HANDSHAKE_BYTES = 320
_HANDSHAKE_WITH_KEYS_BYTES = 1 << 10
_RECEIVE_BUFFER = 1 << 13
_MOST_SUBSCRIPTIONS_AT_ONCE = 16  # of one connection: what it brings until it can be disconnected
_COMMAND_BYTES = 16  # of a SUBSCRIBE beside its topic


class _Topic:
    """A topic of a publisher, and the headers of its next messages of one frame.

    `publisher` is a random number for each topic, so that a subscriber counts missed messages by topic.
    """

    def __init__(self, name: bytes, most: int) -> None:
        self.name = name
        self.most = most
        self.publisher = secrets.randbits(32)
        self.start = start(name, INLINE, self.publisher)
        self.go_on_at(0)

    def go_on_at(self, number: int) -> None:
        """Give `number` to the next message."""
        self.beyond = number + min(self.most, 256 - number % 256)  # the first number not in `headers`
        self.headers: Iterator[bytes] = headers(self.start, number & LAST_NUMBER, self.most)

    def next_headers(self) -> bytes:
        """Prepare more headers and return the first."""
        self.go_on_at(self.beyond & LAST_NUMBER)
        return next(self.headers)

    def next_number(self) -> int:
        """Return the number of the next message, of another kind."""
        number = self.number_of(next(self.headers, None) or self.next_headers())
        self.go_on_at(number + 1)
        return number

    def take_back(self, frame: Any) -> None:
        """Use the number of a frame again that was not sent."""
        self.go_on_at(self.number_of(frame[0] if isinstance(frame, Parts) else frame))

    def number_of(self, frame: Any) -> int:
        """Return the number in a frame of this topic."""
        end = len(self.name) + HEADER_BYTES
        return int.from_bytes(frame[end - 4 : end], "big")


class ZmqPub(Endpoint):
    """Publishes; binds unless `bind=False`. Keywords as ZmqSocket's, and:

    `serializer`, `callback(socket)`, `policy` and `budget_bytes` (see above; an explicit `hwm` replaces the
    budget), `timeout` seconds that `pub` may block with policy 'block'.
    """

    def __init__(
        self,
        *,
        bind: bool = True,
        serializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        policy: Policy = "drop",
        budget_bytes: int = BUDGET_BYTES,
        timeout: float = -1,
        **options: Unpack[SocketOptions],
    ) -> None:
        if policy not in ("drop", "latest", "block"):
            raise ValueError(f"invalid policy {policy!r}; expected one of drop, latest, block")
        self.policy: Policy = policy
        self.budget_bytes = budget_bytes
        self._fixed_hwm = options.get("hwm") is not None
        self._largest, self._longest_header = _SMALLEST, 0
        self._hwm = 0
        self._fits = -1  # bytes of data up to which nothing needs to be looked at but the topic
        self._topics: dict[str | bytes, _Topic] = {}
        self._budget: SubscriptionBudget | None = None
        self._behind = False  # subscriptions wait to be read: the next message reads on
        super().__init__(zmq.XPUB, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)
        self.serializer = get_serializer(serializer)

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.setsockopt(zmq.XPUB_VERBOSER, 1)
        raw.setsockopt(zmq.XPUB_NODROP, int(self.policy == "block"))
        self._subscriptions = Subscriptions()
        handshake = _HANDSHAKE_BYTES if self.socket.keys is None else _HANDSHAKE_WITH_KEYS_BYTES
        raw.maxmsgsize = max(handshake, MAX_TOPIC_BYTES + _COMMAND_BYTES)
        raw.rcvbuf = _RECEIVE_BUFFER
        if not self._fixed_hwm:
            raw.rcvhwm = _MOST_SUBSCRIPTIONS_AT_ONCE
        if self.socket.scheme == "tcp" and sys.platform == "linux":
            self.socket.link.budget = self._budget = SubscriptionBudget(self)
        self._make_room(0)

    def idle(self) -> bool:
        """Return whether no thread is in a call of this publisher."""
        return bool(self._wire.turns)

    def disconnected(self, nbytes: int) -> None:
        """Count a subscriber that was disconnected for `nbytes` of subscriptions."""
        self._behind = True
        self._fits = -1
        self._reject(
            MalformedMessageError(
                f"a subscriber sent {nbytes} bytes of subscriptions at once and is disconnected"
            )
        )

    def pub(self, topic: str | bytes, data: Any, timeout: float | None = None) -> None:
        """Publish under a topic; `data` may be changed afterwards.

        `timeout`: seconds for policy 'block', negative for ever; by default the socket's.
        Raises ZmqTimeoutError with policy 'block' when a subscriber stays full, EncodeError.
        """
        message = data if self._encode is None else self._encode(data)
        known = self._topics.get(topic)
        if known is None or type(message) is not bytes or len(message) > self._fits:
            self._publish(topic, message, self._wire.send, timeout)
            return
        wire = self._wire
        try:
            wire.turns.pop()  # enter() and leave(), without the calls
        except IndexError:
            raise wire.why_not() from None
        frame = (next(known.headers, None) or self._next_headers(known, len(message))) + message
        try:
            if wire.link.fault is not None:
                raise wire.link.fault
            try:
                wire.put(frame)
            except zmq.ZMQError as error:
                wire.send_again(frame, timeout, error)
        except CaramlError:
            known.take_back(frame)
            raise
        finally:
            wire.turns.append(1)

    def pub_uncopied(self, topic: str | bytes, data: Any, timeout: float | None = None) -> MessageTracker:
        """Publish without copying arrays of `data` of 256 KiB or more: leave them alone until the answer is
        `done`. `topic`, `timeout` and errors as of `pub`.

        Over inproc, where the subscribers would be given the arrays themselves, they are copied.
        """
        message = data if self._encode is None else self._encode(data)
        if self.socket.scheme == "inproc":
            self._publish(topic, message, self._wire.send, timeout)
            return DONE
        return self._publish(topic, message, self._wire.send_uncopied, timeout)

    def wait_subscribers(self, n: int, timeout: float, topic: str | bytes | None = None) -> None:
        """Wait until `n` subscriptions (to what `topic` begins with, if given) are in force.

        A subscriber of two topics counts twice. Raises ZmqTimeoutError after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (count := self.subscribers(topic)) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._late(f"{n} subscribers; {count} connected", timeout)
            self._wire.enter()
            try:
                self._wire.check()
                self.socket.unwrap().poll(min(100, int(left * 1000) + 1))
            finally:
                self._wire.leave()

    def subscribers(self, topic: str | bytes | None = None) -> int:
        """Return the number of subscriptions in force (to what `topic` begins with, if given)."""
        self._behind = True
        while self._behind:
            self._wire.enter()
            try:
                self._read_subscriptions()
            finally:
                self._wire.leave()
        return self._subscriptions.count(None if topic is None else str2bytes(topic))

    def _publish(
        self, topic: str | bytes, message: Any, send: Callable[..., Any], timeout: float | None
    ) -> Any:
        """Publish a topic's first message, or one that is large or of several parts."""
        known = self._topics.get(topic) or self._new_topic(topic)
        self._wire.enter()
        try:
            self._read_subscriptions()
            frame = self._framed(known, message)
        finally:
            self._wire.leave()
        try:
            return send(frame, timeout)
        except CaramlError:
            known.take_back(frame)
            raise

    def _framed(self, topic: _Topic, message: Any) -> Any:
        """Return the frames of a message that is large, of several parts, or larger than any before."""
        parts = message if isinstance(message, Parts) else Parts((_buffer(message),))
        nbytes = len(topic.name) + HEADER_BYTES + sum(map(size, parts))
        limits = self.socket.limits
        if nbytes > limits.message_bytes or len(parts) > MAX_PARTS:
            raise MessageTooLargeError(
                f"{self.address}: {nbytes} bytes in {len(parts)} parts are over the limits"
            )
        self._make_room(nbytes)

        def framed(kind: int, data: Any = b"") -> bytes:
            return b"".join((header(topic.name, kind, topic.publisher, topic.next_number()), data))

        if type(message) is bytes and len(message) < ZERO_COPY:
            return framed(INLINE, message)
        if self.policy == "latest":
            return framed(JOINED, join(parts))
        if isinstance(message, Parts):
            return Parts((framed(PARTS, view(parts[0])), *parts[1:]))
        return Parts((framed(DETACHED), *parts))

    def _new_topic(self, topic: str | bytes) -> _Topic:
        name = check_topic(str2bytes(topic))
        if len(self._topics) >= _MOST_TOPICS:
            self._topics.clear()  # numbers begin again, so they are another publisher's
        most = max(_LEAST_PREPARED, _PREPARED // (len(self._topics) + 1))
        known = self._topics[topic] = _Topic(name, most)
        self._longest_header = max(self._longest_header, len(name) + HEADER_BYTES)
        return known

    def _next_headers(self, topic: _Topic, nbytes: int) -> bytes:
        """Return the next header of a topic, after a look at the subscriptions."""
        self._read_subscriptions()
        if nbytes <= self._largest // 2 - self._longest_header and self._largest > _SMALLEST:
            self._largest //= 2
            self._make_room(nbytes)
        topic.most = max(_LEAST_PREPARED, _PREPARED // len(self._topics))
        return topic.next_headers()

    def _make_room(self, nbytes: int) -> None:
        """Keep what one subscriber can have queued within the budget: ZeroMQ counts messages, not bytes.

        A large message is counted by its own size, so that it does not narrow the queue of small ones for
        ever; these by the largest of late.
        """
        if nbytes > ZERO_COPY:
            self._fits = -1  # the next message comes by here again
            self._set_hwm(nbytes)
            return
        self._largest = max(self._largest, 1 << (nbytes - 1).bit_length())
        fits = min(self._wire.small - 1, self._largest - self._longest_header)
        self._fits = -1 if self._behind else fits
        self._set_hwm(self._largest)

    def _set_hwm(self, nbytes: int) -> None:
        queued = max(1, min(_MOST_QUEUED, self.budget_bytes // (nbytes + _QUEUED_OVERHEAD)))
        if queued != self._hwm and not self._fixed_hwm:
            self.socket.unwrap().sndhwm = self._hwm = queued

    def _read_subscriptions(self) -> None:
        """Read the subscriptions that have arrived. Call between enter() and leave()."""
        for _ in range(_READ_AT_ONCE):
            if (frame := self._wire.receive_now()) is None:
                self._behind = False
                if self._budget is not None:
                    self._budget.read += 1
                return
            try:
                if frame.more:
                    self._wire.rest()
                    raise MalformedMessageError("not a subscription, but a message of several parts")
                self._subscriptions.take(frame)
            except MalformedMessageError as error:
                self._reject(error)
        self._behind = True
        self._fits = -1


def _buffer(message: Any) -> Any:
    """Return the message as a buffer. Raises EncodeError before the topic is sent."""
    return message if type(message) is bytes else view(message)
