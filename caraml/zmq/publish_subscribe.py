"""ZmqPub and ZmqSub: every message to every subscriber of its topic.

>>> publisher = ZmqPub(port=0, serializer="msgpack")
>>> subscriber = ZmqSub(address=publisher.address, topic="loss", deserializer="msgpack")
>>> publisher.wait_subscribers(1, timeout=5)
>>> publisher.pub("loss", 0.5)
>>> subscriber.recv(timeout=5), subscriber.topic
(0.5, b'loss')
>>> publisher.close(); subscriber.close()

**Promise.** Subscribers get what is published after their subscription arrived (`wait_subscribers`), in
  order, as
far as they keep up. For each subscriber the publisher holds at most `budget_bytes`, and beyond that, by
`policy`:

* `'drop'`: new messages are dropped for the subscribers that are full; others get them. Each ZmqSub counts in
  `missed` what it was not given;
* `'latest'`: as drop; messages are one frame, and a ZmqSub with `policy='latest'` keeps only the newest of
  all its
  topics: no slow motion behind;
* `'block'`: `pub` waits, up to its deadline, until all have room: nothing is dropped, the slowest sets the
  pace.
"""

import logging
import secrets
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, Unpack

import zmq

from caraml import serializers
from caraml.codec.joined import join, split
from caraml.codec.parts import MAGIC, Inline, Parts, size, view
from caraml.errors import CaramlError, MalformedMessageError
from caraml.utils.serializer import str2bytes
from caraml.zmq.endpoint import Endpoint, SocketOptions
from caraml.zmq.loop import Loop
from caraml.zmq.sent import Sent
from caraml.zmq.socket import ZmqSocket
from caraml.zmq.wire import LARGE, ZERO_COPY

log = logging.getLogger("caraml")

Policy: TypeAlias = Literal["drop", "latest", "block"]

BUDGET_BYTES = 64 << 20
_INLINE, _DETACHED, _JOINED, _PARTS = range(4)
_MOST_QUEUED = 100_000
_QUEUED_OVERHEAD = 64
_REMEMBERED = 1024
_MOST_TOPICS = 1 << 16
_AT_ONCE = range(64)
_NOBLOCK = int(zmq.NOBLOCK)
_LAST_NUMBER = (1 << 32) - 1
_LONGEST_TOPIC = (1 << 16) - 1


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
            raise ValueError(f"policy {policy!r} is none of drop, latest, block")
        self.policy: Policy = policy
        self.budget_bytes = budget_bytes
        self._fixed_hwm = options.get("hwm") is not None
        self._largest = 0
        self._topics: dict[str | bytes, _Topic] = {}
        self._subscriptions: Counter[bytes] = Counter()
        self._unread = 0
        super().__init__(zmq.XPUB, bind, callback, timeout, options)
        self._encode = serializers.encoder(serializer, self.socket)

    def _prepare(self) -> None:
        raw = self.socket.unwrap()
        raw.setsockopt(zmq.XPUB_VERBOSER, 1)
        raw.setsockopt(zmq.XPUB_NODROP, int(self.policy == "block"))
        self._resize(1 << 10)

    def pub(self, topic: str | bytes, data: Any, timeout: float | None = None) -> None:
        """Publish; `data` may be changed afterwards.

        Raises ZmqTimeoutError with policy 'block' when a subscriber stays full, EncodeError.
        """
        message = data if self._encode is None else self._encode(data)
        known = self._topics.get(topic)
        if known is None:
            known = self._new_topic(topic)
        number = known.number
        known.number = (number + 1) & _LAST_NUMBER
        if type(message) is bytes and len(message) < ZERO_COPY:
            framed: Any = b"".join((known.name, message, _pack_marked(known.number, known.mark)))
            if len(framed) > self._largest and not self._fixed_hwm:
                self._resize(len(framed))
        else:
            framed = self._framed_large(known, message)
        try:
            self._wire.send(framed, timeout)
        except CaramlError:
            known.number = number  # not sent, so nobody missed it
            raise
        self._unread += 1
        if self._unread == _REMEMBERED:
            self._read_subscriptions()

    def pub_uncopied(self, topic: str | bytes, data: Any, timeout: float | None = None) -> Sent:
        """Publish without copying large arrays, as policy 'block': leave them alone until the answer is
        `done`.
        """
        message = data if self._encode is None else self._encode(data)
        known = self._topics.get(topic) or self._new_topic(topic)
        known.number = (known.number + 1) & _LAST_NUMBER
        return self._wire.send_uncopied(self._framed_large(known, message), timeout)

    def wait_subscribers(self, n: int, timeout: float, topic: str | bytes | None = None) -> None:
        """Wait until `n` subscriptions (to what `topic` begins with, if given) are in force.

        A subscriber of two topics counts twice. Raises ZmqTimeoutError.
        """
        deadline = time.monotonic() + timeout
        while (found := self.subscribers(topic)) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._wire.late(f"{n} subscribers; there are {found}", timeout)
            self.socket.unwrap().poll(min(100, int(left * 1000) + 1))

    def subscribers(self, topic: str | bytes | None = None) -> int:
        """The subscriptions in force now (to what `topic` begins with, if given)."""
        self._read_subscriptions()
        if topic is None:
            return self._subscriptions.total()
        wanted = str2bytes(topic)
        return sum(count for prefix, count in self._subscriptions.items() if wanted.startswith(prefix))

    def _framed_large(self, topic: "_Topic", message: Any) -> Any:
        parts = message if isinstance(message, Parts) else Parts((message,))
        nbytes = sum(map(size, parts))
        if nbytes > self._largest and not self._fixed_hwm:
            self._resize(nbytes)

        def trailer(kind: int) -> bytes:
            return _pack_trailer(topic.number, topic.publisher, kind, MAGIC, len(topic.name))

        if self.policy == "latest":
            return b"".join((topic.name, join(parts), trailer(_JOINED)))
        if isinstance(message, Parts):
            return Parts((b"".join((topic.name, view(parts[0]), trailer(_PARTS))), *parts[1:]))
        return Parts((topic.name + trailer(_DETACHED), message))

    def _new_topic(self, topic: str | bytes) -> "_Topic":
        name = str2bytes(topic)
        if len(name) > _LONGEST_TOPIC:
            raise ValueError(f"a topic of {len(name)} bytes; {_LONGEST_TOPIC} is the most")
        if len(self._topics) >= _MOST_TOPICS:
            self._topics.clear()  # numbers begin again, so they are another publisher's
        known = self._topics[topic] = _Topic(name)
        return known

    def _resize(self, nbytes: int) -> None:
        """Keep what one subscriber can have queued within the budget: ZeroMQ counts messages, not bytes."""
        self._largest = 1 << (nbytes - 1).bit_length()
        if not self._fixed_hwm:
            queued = self.budget_bytes // (self._largest + _QUEUED_OVERHEAD)
            self.socket.unwrap().sndhwm = max(1, min(_MOST_QUEUED, queued))

    def _read_subscriptions(self) -> None:
        self._unread = 0
        self._wire.enter()
        try:
            while (frame := self._wire.receive_now()) is not None:
                change = frame.bytes
                if frame.more:
                    self._wire.rest()
                elif change[:1] == b"\x01":
                    self._subscriptions[change[1:]] += 1
                elif change[:1] == b"\x00" and self._subscriptions[change[1:]] > 0:
                    self._subscriptions[change[1:]] -= 1
        finally:
            self._wire.leave()


class ZmqSub(Endpoint):
    """Subscribes; connects unless `bind=False`. Keywords as ZmqSocket's, and:

    `topic` to begin with (more by `subscribe`; a topic is a prefix, '' is everything), `deserializer`,
    `callback(socket)`, `timeout` seconds that `recv` may block, `policy='latest'` to keep only the newest
    message. After a `recv`, `topic` is that message's. `missed` counts the messages of subscribed topics,
    after the first one received, that were not given: dropped because we were too slow, or passed over by
    'latest'.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        deserializer: serializers.Serializer = None,
        callback: Callable[[ZmqSocket], object] | None = None,
        topic: str | bytes | None = None,
        timeout: float = -1,
        policy: Literal["all", "latest"] = "all",
        **options: Unpack[SocketOptions],
    ) -> None:
        if policy not in ("all", "latest"):
            raise ValueError(f"policy {policy!r} is none of all, latest")
        self.topic = b""
        self.missed = 0
        self.handler_failures = 0
        self._last: _Seen | None = None
        self._ready: deque[bytes] = deque()
        self._held: bytes | None = None
        self._seen: dict[tuple[bytes, int], _Seen] = {}
        self._policy = policy
        self._first_topic = topic
        self._topics: Counter[bytes] = Counter()
        self._loop: Loop | None = None
        super().__init__(zmq.SUB, bind, callback, timeout, options)
        self._decode_data = serializers.decoder(deserializer, self.socket)
        self._raw = deserializer is None

    def _prepare(self) -> None:
        if self._policy == "latest":
            self.socket.unwrap().setsockopt(zmq.CONFLATE, 1)
        if self._first_topic is not None:
            self.subscribe(self._first_topic)

    def subscribe(self, topic: str | bytes) -> None:
        """Also receive the topics that begin with this one."""
        self._topics[str2bytes(topic)] += 1
        self._seen.clear()
        self._last = None
        self.socket.unwrap().setsockopt(zmq.SUBSCRIBE, str2bytes(topic))

    def unsubscribe(self, topic: str | bytes) -> None:
        """Take back one `subscribe`."""
        self._topics -= Counter((str2bytes(topic),))
        self._seen.clear()
        self._last = None
        self.socket.unwrap().setsockopt(zmq.UNSUBSCRIBE, str2bytes(topic))
        self._drop_fetched(str2bytes(topic))

    def _drop_fetched(self, unsubscribed: bytes) -> None:
        """ZeroMQ filters what it holds by the subscriptions in force; so do we what was fetched."""
        if self._dropped_by(self.topic, unsubscribed):
            self._ready.clear()  # they are all of one topic
        if self._held is not None and self._dropped_by(self._held, unsubscribed):
            self._held = None
            if self._wire.has_more():
                self._wire.enter()
                try:
                    self._wire.rest()
                except MalformedMessageError as error:
                    self._reject(error)
                finally:
                    self._wire.leave()

    def _dropped_by(self, message: bytes, unsubscribed: bytes) -> bool:
        return message.startswith(unsubscribed) and not any(map(message.startswith, self._topics))

    def recv(self, timeout: float | None = None) -> Any:
        """The next message's data. Raises ZmqTimeoutError, AuthenticationError."""
        ready = self._ready
        if ready:
            if self._raw:
                return ready.popleft()
            while ready:
                try:
                    return self._decode_data(Inline(ready.popleft()), ())
                except MalformedMessageError as error:
                    self._reject(error)
        while self._held is not None or (timeout is None and self._wire.timeout < 0):
            frame, self._held = self._held, None
            if frame is None:
                frame = self._wire.receive_quickly(True)
            if frame is not None:
                try:
                    topic, data = self._decode_quickly(frame)
                except MalformedMessageError as error:
                    self._reject(error)
                    continue
                if topic is not None:
                    self.topic = topic
                    if self._last is not None and len(frame) < LARGE:
                        self._fetch(self._last)
                    return data
        while True:
            topic, data = self._next(self._decode, timeout, "a message")
            if topic is not None:
                self.topic = topic
                return data

    @property
    def pending(self) -> int:
        """Messages that were fetched with others: `recv` gives them at once, and a poll of the socket does
        not tell of them.
        """
        return len(self._ready) + (self._held is not None)

    def _fetch(self, last: "_Seen") -> None:
        """Take what has come already, as long as it is the topic's next small message; another one is
        held for the next `recv`.
        """
        if self._policy == "latest":
            return
        wire = self._wire
        wire.enter()
        receive, append = wire.receive_part, self._ready.append
        mark, length, expected = last.mark, last.length, last.number + 1
        whole = b""
        try:
            for _ in _AT_ONCE:
                whole = receive(_NOBLOCK)
                number, found = _read_marked(whole, -_TRAILER)
                if found != mark or number != expected or len(whole) >= LARGE:
                    self._held = whole
                    break
                append(whole[length:-_TRAILER])
                expected += 1
        except struct.error:
            self._held = whole
        except zmq.ZMQError:
            pass  # nothing more is here, or the next receive says what is wrong
        finally:
            last.number = expected - 1
            wire.leave()

    def start_loop(self, handler: Callable[[Any], Any], blocking: bool = False) -> threading.Thread | None:
        """Call `handler(data)` for every message, here (`blocking`) or in a daemon thread, which is returned.

        A handler that raises is logged and counted in `handler_failures`; the loop goes on.
        """

        def step(timeout: float) -> None:
            data = self.recv(timeout)
            try:
                handler(data)
            except Exception:
                self.handler_failures += 1
                log.exception("%s: the handler failed", self.address)

        if self._loop is None or not self._loop.running:
            self._loop = Loop(step)
        return self._loop.start(blocking)

    def stop(self) -> None:
        """End the loop, after the message in hand; from any thread."""
        if self._loop is not None:
            self._loop.stop()

    def close(self, linger: float | None = None) -> None:
        """Stop the loop and close."""
        if self._loop is not None:
            self._loop.join(1.0)
        super().close(linger)

    def _decode(self, frame: Any, rest: list[zmq.Frame]) -> tuple[bytes | None, Any]:
        whole = frame.bytes if len(frame) < LARGE else frame.buffer
        end = len(whole) - _TRAILER
        number, publisher, kind, magic, length = _read_trailer(whole, end) if end >= 0 else _NO_TRAILER
        if magic != MAGIC or length > end:
            if len(rest) == 1:  # what a plain ZeroMQ publisher sends: topic, data
                topic = bytes(whole)
                return (topic, self._decode_data(rest[0], ())) if self._wants(topic) else (None, None)
            raise MalformedMessageError("not a message of a ZmqPub")
        topic = bytes(whole[:length])
        seen = self._seen.get((topic, publisher))
        if seen is None:
            seen = self._new_seen(topic, publisher)
            seen.number = number - 1
        if number > seen.number + 1:
            self.missed += number - seen.number - 1
        seen.number = number
        if not seen.wanted:
            return None, None
        if kind == _INLINE and not rest and self._raw:
            return topic, bytes(whole[length:end])
        return topic, self._decode_payload(kind, whole[length:end], rest)

    def _decode_quickly(self, whole: bytes) -> tuple[bytes | None, Any]:
        """Most messages are one frame of the topic that the last one had."""
        end = len(whole) - _TRAILER
        last = self._last
        number, mark = _read_marked(whole, end) if end >= 0 else (0, -1)
        if last is not None and mark == last.mark and whole.startswith(last.topic):
            if number > last.number + 1:
                self.missed += number - last.number - 1
            last.number = number
            if self._raw:
                return last.topic, whole[last.length : end]
            return last.topic, self._decode_data(Inline(whole[last.length : end]), ())
        rest: list[zmq.Frame] = []
        if self._wire.has_more():
            self._wire.enter()
            try:
                rest = self._wire.rest()
            finally:
                self._wire.leave()
        found = self._decode(Inline(whole), rest)
        self._last = self._seen_as_one_frame(whole, rest, found[0])
        return found

    def _seen_as_one_frame(self, whole: bytes, rest: list[zmq.Frame], topic: bytes | None) -> "_Seen | None":
        if topic is None or rest or len(whole) < _TRAILER:
            return None
        _, publisher, kind, _, _ = _read_trailer(whole, len(whole) - _TRAILER)
        seen = self._seen.get((topic, publisher))
        if seen is not None and kind == _INLINE:
            seen.topic, seen.length = topic, len(topic)
            (seen.mark,) = _read_mark(whole, len(whole) - _TRAILER + _NUMBER)
            return seen
        return None

    def _decode_payload(self, kind: int, payload: bytes | memoryview, rest: list[zmq.Frame]) -> Any:
        if kind == _DETACHED and rest:
            return self._decode_data(rest[0], rest[1:])
        if kind == _JOINED:
            first, *others = split(payload)
            return self._decode_data(Inline(first), others)
        return self._decode_data(Inline(payload), rest)

    def _new_seen(self, topic: bytes, publisher: int) -> "_Seen":
        if len(self._seen) >= _MOST_TOPICS:
            self._seen.clear()
        seen = self._seen[topic, publisher] = _Seen(self._wants(topic))
        return seen

    def _wants(self, topic: bytes) -> bool:
        """False for what ZeroMQ let through because topic and data together begin with a subscription."""
        return not self._topics or any(topic.startswith(prefix) for prefix in self._topics)


class _Seen:
    """A publisher's topic as a subscriber knows it: whether it is wanted, its last message's number."""

    __slots__ = ("length", "mark", "number", "topic", "wanted")

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.number = self.length = 0
        self.topic = b""
        self.mark = -1


class _Topic:
    """A topic of a publisher, the number of its last message, and what marks its messages of one frame.

    `publisher` is another one for each topic, so that the mark tells the topic without a look at it.
    """

    __slots__ = ("mark", "name", "number", "publisher")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.number = 0
        self.publisher = secrets.randbits(32)
        (self.mark,) = _read_mark(_pack_trailer(0, self.publisher, _INLINE, MAGIC, len(name)), _NUMBER)


_trailer = struct.Struct("<IIBBH")  # number, publisher, kind, magic, length of the topic
_TRAILER = _trailer.size
_NO_TRAILER = (0, 0, 0, 0, 0)
_pack_trailer = _trailer.pack
_read_trailer = _trailer.unpack_from
_NUMBER = 4
_read_mark = struct.Struct("<Q").unpack_from
_marked = struct.Struct("<IQ")  # the same trailer: number, and all else in one
_pack_marked = _marked.pack
_read_marked = _marked.unpack_from
