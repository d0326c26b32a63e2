"""ZmqSub: receives the messages of its topics; see publisher.py for the promise."""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Literal, Unpack

import zmq

from caraml import serializers
from caraml.codec.parts import Inline
from caraml.errors import MalformedMessageError, ZmqTimeoutError
from caraml.limits import MAX_PREFIX_BYTES
from caraml.transport.wire import LARGE
from caraml.utils.serializer import get_deserializer, str2bytes
from caraml.zmq.endpoint import EndpointOptions, LoopingEndpoint
from caraml.zmq.pubsub.topic_frame import (
    DETACHED,
    INLINE,
    LAST_NUMBER,
    PARTS,
    Head,
    headers,
    read_head,
    start,
)

_MAX_TOPICS = 1 << 16
_MAX_KNOWN_TOPIC_BYTES = 16 << 20
_FETCHED_AT_ONCE = 128
_LATEST_HWM = 16
_CATCH_UP = 0.1  # seconds that policy 'latest' looks for a newer message
_QUIET_MS = 2
_NOBLOCK = int(zmq.NOBLOCK)
_NOTHING: Any = object()


class _KnownTopic:
    """A stream of a publisher: whether its topic is subscribed to, and the number of its last message."""

    def __init__(self, head: Head, wanted: bool) -> None:
        self.wanted = wanted
        self.number = head.number - 1
        self.start = start(head.topic, INLINE, head.stream)


class ZmqSub(LoopingEndpoint):
    """Subscribes; connects unless `bind=True`. It takes the keywords of ZmqSocket, and:

    `topic` of the first subscription (see `subscribe`; a topic is a prefix, '' is everything),
    `deserializer`, `callback(socket)`, `timeout` seconds that `recv` may block, `policy='latest'` to receive
    only the newest message that has arrived. After a `recv`, `topic` is that of the message. `missed` counts
    the messages of subscribed topics that were lost, because the subscriber was too slow or disconnected, or
    skipped by 'latest'.
    """

    def __init__(
        self,
        *,
        bind: bool = False,
        deserializer: serializers.Serializer = None,
        topic: str | bytes | None = None,
        policy: Literal["all", "latest"] = "all",
        **options: Unpack[EndpointOptions],
    ) -> None:
        if policy not in ("all", "latest"):
            raise ValueError(f"invalid policy {policy!r}; expected one of all, latest")
        self.topic = b""
        self.missed = 0
        self._ready: deque[bytes] = deque()
        self._changes: deque[Callable[[], None]] = deque()
        self._held: bytes | None = None  # the first frame of a fetched message outside the stream
        self._streaming: _KnownTopic | None = None  # the topic of which small messages follow each other
        self._known_topics: dict[tuple[bytes, int], _KnownTopic] = {}
        self._known_topic_bytes = 0
        self._policy = policy
        self._first_topic = topic
        self._topics: Counter[bytes] = Counter()
        super().__init__(zmq.SUB, bind, options)
        self._decode_data = serializers.decoder(deserializer, self.socket)
        self.deserializer = get_deserializer(deserializer)
        self._raw = deserializer is None

    def _prepare(self) -> None:
        self._wire.fetched = self._ready
        if self._policy == "latest":
            # Not CONFLATE, which keeps one frame of a message, and one of several subscriptions.
            most = min(_LATEST_HWM, self.socket.limits.unread_messages())
            self.socket.unwrap().rcvhwm = self._options.get("hwm") or most
        if self._first_topic is not None:
            self.subscribe(self._first_topic)

    def subscribe(self, topic: str | bytes) -> None:
        """Subscribe to topics that begin with this one; in a running loop, from its next message on.

        Raises ValueError for more than 255 bytes, for which a publisher would disconnect the subscriber.
        """
        prefix = str2bytes(topic)
        if len(prefix) > MAX_PREFIX_BYTES:
            raise ValueError(f"a subscription of {len(prefix)} bytes; the maximum is {MAX_PREFIX_BYTES}")
        self._change(partial(self._subscribe, prefix))

    def unsubscribe(self, topic: str | bytes) -> None:
        """Undo one `subscribe` of this topic; in a running loop, from its next message on."""
        self._change(partial(self._unsubscribe, str2bytes(topic)))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the subscriptions in the receiving thread."""
        if self._looping():
            self._changes.append(change)
            return
        with self._wire:
            change()

    def _subscribe(self, topic: bytes) -> None:
        self._topics[topic] += 1
        self._known_topics.clear()
        self._streaming = None
        self.socket.unwrap().setsockopt(zmq.SUBSCRIBE, topic)

    def _unsubscribe(self, topic: bytes) -> None:
        self._topics -= Counter((topic,))
        self._known_topics.clear()
        self.socket.unwrap().setsockopt(zmq.UNSUBSCRIBE, topic)
        self._drop_fetched(topic)

    def _drop_fetched(self, unsubscribed: bytes) -> None:
        """Drop the fetched messages of an unsubscribed topic."""
        self._streaming = None
        if self._is_unsubscribed(self.topic, unsubscribed):
            self._ready.clear()  # all have the same topic
        if self._held is not None and self._is_unsubscribed(self._held, unsubscribed):
            try:
                self._held_message()  # reads its other frames
            except MalformedMessageError as error:
                self._reject(error)

    def _is_unsubscribed(self, message: bytes, unsubscribed: bytes) -> bool:
        return message.startswith(unsubscribed) and not any(map(message.startswith, self._topics))

    def recv(self, timeout: float | None = None) -> Any:
        """Return the data of the next message. Raises ZmqTimeoutError, AuthenticationError.

        `timeout` in seconds, negative for ever; by default the socket's.
        """
        ready = self._ready
        deadline = 0.0
        while True:
            if ready:
                if self._raw:
                    return ready.popleft()
                try:
                    return self._decode_data(Inline(ready.popleft()), ())
                except MalformedMessageError as error:
                    self._reject(error)
            elif self._streaming is not None and timeout is None and self._wire.timeout < 0:
                self._wait_for_same_topic(self._streaming)
            else:
                asked = self._wire.timeout if timeout is None else timeout
                deadline = deadline or monotonic() + asked
                left = asked if asked < 0 else max(0.0, deadline - monotonic())
                try:
                    data = self._next(self._read_message, left, "a message", self._receive)
                except ZmqTimeoutError:
                    raise self._timeout_error("a message", asked)  # noqa: B904 - its cause is the refused peer
                if data is not _NOTHING:
                    return data

    @property
    def pending(self) -> int:
        """Return the number of fetched messages, which a poll of the socket does not report."""
        return len(self._ready) + (self._held is not None)

    def _receive(self, timeout: float | None, waiting_for: str) -> tuple[Any, list[zmq.Frame]]:
        while self._changes:
            self._changes.popleft()()
        if self._held is not None:
            return self._held_message()
        message = self._wire.receive(timeout, waiting_for)
        return message if self._policy == "all" else self._newest(message)

    def _newest(self, message: tuple[Any, list[zmq.Frame]]) -> tuple[Any, list[zmq.Frame]]:
        """Return the last message that has arrived; if some were skipped, wait briefly for newer ones."""
        wire = self._wire
        give_up = monotonic() + _CATCH_UP
        behind = False
        while monotonic() < give_up:
            if (frame := wire.receive_now()) is None:
                if not behind or not self.socket.unwrap().poll(_QUIET_MS):
                    break
                continue
            behind = True
            try:
                message = frame, wire.receive_rest() if frame.more else []
            except MalformedMessageError as error:
                self._reject(error)
        return message

    def _held_message(self) -> tuple[Any, list[zmq.Frame]]:
        """Return the fetched message outside the stream, of which only the first frame was read."""
        frame, self._held = Inline(self._held or b""), None
        return frame, self._wire.receive_rest() if self._wire.has_more() else []

    def _read_message(self, frame: Any, rest: list[zmq.Frame]) -> Any:
        """Return the data of a message, and fetch the next ones of the same topic."""
        if self.socket.scheme == "inproc":  # all subscribers share the memory
            frame, *rest = (_own_copy(part) for part in (frame, *rest))
        whole = frame.bytes if len(frame) < LARGE else frame.buffer
        head = read_head(whole)
        if head is None:
            return self._foreign(whole, rest)
        known = self._known_topics.get((head.topic, head.stream)) or self._add_known_topic(head)
        self.missed += max(0, head.number - known.number - 1)
        known.number = head.number
        if not known.wanted:
            return _NOTHING
        data = self._decode_payload(head.kind, whole[head.data :], rest)
        self.topic = head.topic
        if head.kind == INLINE and type(whole) is bytes and self._policy != "latest":
            self._fetch(known, _NOBLOCK)
        return data

    def _foreign(self, whole: bytes | memoryview, rest: list[zmq.Frame]) -> Any:
        """Return the data of a plain ZeroMQ publisher's message of two frames, topic and data."""
        if len(rest) != 1:
            raise MalformedMessageError(
                f"a message has {1 + len(rest)} frames and no header of a ZmqPub;"
                " use a ZmqPub, or send two frames: topic and data"
            )
        topic = bytes(whole)
        if not self._wants(topic):
            return _NOTHING
        data = self._decode_data(rest[0], ())
        self.topic = topic
        return data

    def _wait_for_same_topic(self, known: _KnownTopic) -> None:
        """Wait for more messages of the same topic, for a slice at most; `recv` does so most of the time."""
        wire = self._wire
        with wire:
            self._fetch(known, 0)
            if not self._ready:
                wire.after_slice()

    def _fetch(self, known: _KnownTopic, flags: int) -> None:
        """Receive the next small messages of a stream into `_ready`; hold the first other message.

        Only the first receive may block.
        """
        receive, append = self._wire.receive_part, self._ready.append
        self._streaming = None
        whole = b""
        try:
            for header in headers(known.start, (known.number + 1) & LAST_NUMBER, _FETCHED_AT_ONCE):
                whole = receive(flags)
                data = whole.removeprefix(header)
                if data is whole:
                    self._held = whole
                    break
                append(data)
                flags = _NOBLOCK
            else:
                self._streaming = known if len(whole) < LARGE else None
        except zmq.Again:
            self._streaming = known
        except zmq.ZMQError:
            pass  # the next receive reports it
        known.number = (known.number + len(self._ready)) & LAST_NUMBER

    def _decode_payload(self, kind: int, payload: bytes | memoryview, rest: list[zmq.Frame]) -> Any:
        if kind == DETACHED and rest:
            return self._decode_data(rest[0], rest[1:])
        if kind == INLINE or (kind == PARTS and rest):
            return self._decode_data(Inline(payload), rest)
        raise MalformedMessageError(
            f"a message has kind {kind} and {1 + len(rest)} parts, which no ZmqPub sends"
        )

    def _add_known_topic(self, head: Head) -> _KnownTopic:
        self._known_topic_bytes += len(head.topic)
        if len(self._known_topics) >= _MAX_TOPICS or self._known_topic_bytes > _MAX_KNOWN_TOPIC_BYTES:
            self._known_topics.clear()
            self._known_topic_bytes = len(head.topic)
        known = self._known_topics[head.topic, head.stream] = _KnownTopic(head, self._wants(head.topic))
        return known

    def _wants(self, topic: bytes) -> bool:
        """Return whether the topic is subscribed to: ZeroMQ compares prefixes with the whole frame.

        Without a subscription through this class, all are: the program has subscribed on the ZeroMQ socket.
        """
        return not self._topics or any(topic.startswith(prefix) for prefix in self._topics)


def _own_copy(part: Any) -> Any:
    return part if len(part) < LARGE else Inline(memoryview(bytearray(part.buffer)))
