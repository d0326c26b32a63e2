"""The subscriptions of a publisher, and the limits on them.

ZeroMQ has no such limits. Within one call of the publisher it reads all subscriptions that a connection has
sent, using fifty times their bytes, so the bytes are counted when they arrive, by an epoll of the background
thread. This works for TCP on Linux.
"""

import contextlib
import weakref
from collections import Counter
from typing import Any

import zmq

from caraml.errors import MalformedMessageError
from caraml.limits import MAX_PREFIX_BYTES, MAX_SUBSCRIPTION_BYTES
from caraml.transport.receive_budget import connection_name, disconnect, received
from caraml.transport.socket_monitor import background_thread

_OVERHEAD = 16
_MAX_AT_ONCE = 1 << 18  # bytes, which ZeroMQ reads within 50 ms
_MAX_WAITING = 1 << 21
_SMALL = 1 << 10  # bytes up to which a connection is kept when all together sent too much


class Subscriptions:
    """Counts the subscriptions; a subscriber that brings them over 2 MiB in all is disconnected."""

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()
        self._disconnected: dict[int, tuple[Any, Any, int]] = {}  # descriptor -> the last name
        self.nbytes = 0

    def count(self, topic: bytes | None) -> int:
        """Return the number of subscriptions, or of those to prefixes of `topic`."""
        if topic is None:
            return self._counts.total()
        return sum(count for prefix, count in self._counts.items() if topic.startswith(prefix))

    def take(self, frame: zmq.Frame) -> None:
        """Count a message of a subscriber. Raises MalformedMessageError."""
        change = frame.bytes
        prefix = change[1:]
        if change[:1] == b"\x01":
            self._counts[prefix] += 1
            self.nbytes += len(prefix) + _OVERHEAD
            too_much = self.nbytes > MAX_SUBSCRIPTION_BYTES or len(prefix) > MAX_PREFIX_BYTES
            if too_much and self._disconnect_sender(frame):
                raise MalformedMessageError(
                    f"the topic of a subscriber has more than {MAX_PREFIX_BYTES} bytes, or the topics of all"
                    f" subscribers together have more than {MAX_SUBSCRIPTION_BYTES}; this subscriber was"
                    " disconnected, unless it is connected over inproc"
                )
        elif change[:1] == b"\x00":
            self._remove(prefix)
        else:
            raise MalformedMessageError("a peer sent the publisher a message that is not a subscription")

    def _remove(self, prefix: bytes) -> None:
        count = self._counts[prefix]
        if count:
            self.nbytes -= len(prefix) + _OVERHEAD
        if count > 1:
            self._counts[prefix] = count - 1
        else:
            del self._counts[prefix]  # else topics that come and go would add up

    def _disconnect_sender(self, frame: zmq.Frame) -> bool:
        """Disconnect the sender of a frame, unless it is connected over inproc.

        Return False if its connection is over, True for a sender over inproc, which stays connected.
        """
        try:
            descriptor, address = int(frame.get(zmq.SRCFD)), frame.get("Peer-Address")
        except (zmq.ZMQError, ValueError):
            return True
        with contextlib.suppress(OSError):
            name = connection_name(descriptor)
            # Else the descriptor is another connection's by now.
            is_of_sender = isinstance(name[1], str | bytes) or name[1][0] == address
            if is_of_sender and self._disconnected.get(descriptor) != name:
                self._disconnected[descriptor] = name
                return disconnect(descriptor, name)
        return False


class _Connection:
    """The bytes of a connection: `brought` so far, and `read` when the publisher last read everything."""

    def __init__(self, name: tuple[Any, Any, int], reads: int) -> None:
        self.name = name
        self.reads = reads
        self.brought = self.read = 0


class SubscriptionBudget:
    """Disconnects subscribers that send more than the publisher can read without a stall.

    Between two reads of the publisher one connection may send 256 KiB, and all together 256 KiB during a call
    of the publisher, else 2 MiB.

    The background thread calls `opened`, `closed` and `_look`, which calls the publisher's `disconnected`.
    """

    def __init__(self, publisher: Any) -> None:
        self._publisher: weakref.ref[Any] = weakref.ref(publisher)
        self._connections: dict[int, _Connection] = {}
        self._unread = 0  # bytes of all connections since the publisher last read everything
        self.reads = self._reads = 0  # how often the publisher read everything

    def opened(self, descriptor: int) -> None:
        """Start to count a connection; disconnect it while others send too much."""
        publisher = self._publisher()
        with contextlib.suppress(OSError, IndexError, TypeError):
            name = connection_name(descriptor)
            if publisher is None or publisher.socket.port not in (name[0][1], name[1][1]):
                return  # the descriptor is another connection's by now
            if self._unread_bytes() > self._max_unread(publisher):
                disconnect(descriptor, name)  # before ZeroMQ has read its topics
                return
            self._connections[descriptor] = _Connection(name, self.reads)
            background_thread().on_arrival(descriptor, self._look)

    def closed(self, descriptor: int) -> None:
        """Forget a connection that ended."""
        self._connections.pop(descriptor, None)

    def end(self) -> bool:
        """Return False: subscriptions stay limited even if the program receives by itself."""
        return False

    def _look(self, descriptor: int) -> None:
        """Count the bytes of a connection, and disconnect it if there are too many."""
        connection = self._connections.get(descriptor)
        publisher = self._publisher()
        if connection is None or publisher is None:
            return
        brought = received(descriptor)
        if brought is None:
            self.closed(descriptor)
            return
        if connection.reads != self.reads:
            connection.reads, connection.read = self.reads, connection.brought
        since = self._unread_bytes() + brought - connection.brought
        self._unread = since
        connection.brought = brought
        own = brought - connection.read
        if own > _MAX_AT_ONCE or (since > self._max_unread(publisher) and own > _SMALL):
            self.closed(descriptor)
            if disconnect(descriptor, connection.name):
                publisher.disconnected(own)

    def _unread_bytes(self) -> int:
        """Return the bytes of all connections since the publisher last read everything."""
        if self._reads != self.reads:
            self._reads, self._unread = self.reads, 0
        return self._unread

    def _max_unread(self, publisher: Any) -> int:
        """Return the bytes that all connections together may send now."""
        return _MAX_WAITING if publisher.idle() else _MAX_AT_ONCE
