"""The subscriptions in force at a publisher, and the bounds on what a subscriber may bring.

ZeroMQ bounds neither. It takes in all that a connection brings within one call of the publisher, at fifty
times its bytes, so the bytes are counted where they arrive: an epoll of the background thread tells of every
connection that brings some. Only Linux counts them, and only TCP.
"""

import contextlib
import weakref
from collections import Counter
from typing import Any

import zmq

from caraml.errors import MalformedMessageError
from caraml.limits import MAX_SUBSCRIPTION_BYTES, MAX_TOPIC_BYTES
from caraml.transport.receive_budget import connection_name, disconnect, received
from caraml.transport.socket_monitor import background_thread

_OVERHEAD = 16
_MOST_AT_ONCE = 1 << 18  # bytes ZeroMQ takes in within 50 ms
_MOST_WAITING = 1 << 21
_SMALL = 1 << 10  # a connection that brought less is spared when all together brought too much


class Subscriptions:
    """Counts prefixes as subscribers come and go. A subscriber whose subscriptions take more than
    2 MiB in all is disconnected; ZeroMQ then forgets them.
    """

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()
        self.nbytes = 0

    def count(self, topic: bytes | None) -> int:
        """Return the number of subscriptions, or of those to what `topic` begins with."""
        if topic is None:
            return self._counts.total()
        return sum(count for prefix, count in self._counts.items() if topic.startswith(prefix))

    def take(self, frame: zmq.Frame) -> None:
        """Take in what a subscriber sent. Raises MalformedMessageError."""
        change = frame.bytes
        prefix = change[1:]
        if change[:1] == b"\x01":
            self._counts[prefix] += 1
            self.nbytes += len(prefix) + _OVERHEAD
            if self.nbytes > MAX_SUBSCRIPTION_BYTES or len(prefix) > MAX_TOPIC_BYTES:
                _disconnect_sender(frame)
                raise MalformedMessageError("a subscription is over the limits; its peer is disconnected")
        elif change[:1] == b"\x00":
            self._remove(prefix)
        else:
            raise MalformedMessageError("not a subscription")

    def _remove(self, prefix: bytes) -> None:
        count = self._counts[prefix]
        if count:
            self.nbytes -= len(prefix) + _OVERHEAD
        if count > 1:
            self._counts[prefix] = count - 1
        else:
            del self._counts[prefix]  # topics may come and go for as long as the program runs


def _disconnect_sender(frame: zmq.Frame) -> None:
    """End the connection that a frame came by; nothing where that is gone, or is within this process."""
    with contextlib.suppress(zmq.ZMQError, OSError, ValueError):
        descriptor, address = int(frame.get(zmq.SRCFD)), frame.get("Peer-Address")
        name = connection_name(descriptor)
        if isinstance(name[1], str | bytes) or name[1][0] == address:  # else another one by now
            disconnect(descriptor, name)


class _Connection:
    """The bytes of a connection: `brought` when last looked at, `before` when they were last all read."""

    def __init__(self, name: tuple[Any, Any], read: int) -> None:
        self.name = name
        self.read = read
        self.brought = self.before = 0


class SubscriptionBudget:
    """Disconnects a subscriber that brings more than the publisher can take in without a stall.

    One connection may bring 256 KiB until the publisher has read all there was, and all together as much
    while the publisher is held in a call, 2 MiB while it does not publish.
    """

    def __init__(self, publisher: Any) -> None:
        self._publisher: weakref.ref[Any] = weakref.ref(publisher)
        self._connections: dict[int, _Connection] = {}
        self._since = 0  # bytes that all brought since the publisher had read everything
        self.read = self._read = 0  # how often it had

    def opened(self, descriptor: int) -> None:
        """Begin to count a connection; disconnect it while others bring too much."""
        publisher = self._publisher()
        with contextlib.suppress(OSError, IndexError, TypeError):
            name = connection_name(descriptor)
            if publisher is None or publisher.socket.port not in (name[0][1], name[1][1]):
                return  # closed since, and the number given to another
            if self._since_read() > self._most(publisher):
                disconnect(descriptor, name)  # before ZeroMQ has any topic of it to look for
                return
            self._connections[descriptor] = _Connection(name, self.read)
            background_thread().on_arrival(descriptor, self._look)

    def closed(self, descriptor: int) -> None:
        """Forget a connection that ended."""
        self._connections.pop(descriptor, None)

    def end(self) -> None:
        """Do nothing: subscriptions are bounded also where the program receives by itself."""

    def _look(self, descriptor: int) -> None:
        """Count what a connection brought."""
        connection = self._connections.get(descriptor)
        publisher = self._publisher()
        if connection is None or publisher is None:
            return
        brought = received(descriptor)
        if brought is None:
            self.closed(descriptor)
            return
        if connection.read != self.read:
            connection.read, connection.before = self.read, connection.brought
        since = self._since_read() + brought - connection.brought
        self._since = since
        connection.brought = brought
        own = brought - connection.before
        if own > _MOST_AT_ONCE or (since > self._most(publisher) and own > _SMALL):
            self.closed(descriptor)
            if disconnect(descriptor, connection.name):
                publisher.disconnected(own)

    def _since_read(self) -> int:
        """Return the bytes that all brought since the publisher had read everything."""
        if self._read != self.read:
            self._read, self._since = self.read, 0
        return self._since

    def _most(self, publisher: Any) -> int:
        """Return the bytes that all together may bring now."""
        return _MOST_WAITING if publisher.idle() else _MOST_AT_ONCE
