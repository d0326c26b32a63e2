"""The subscriptions in force at a publisher, and the bound on what they take."""

import contextlib
import os
import socket as plain_sockets
from collections import Counter

import zmq

from caraml.errors import MalformedMessageError
from caraml.limits import Limits

_OVERHEAD = 16


class Subscriptions:
    """Counts prefixes as subscribers come and go. ZeroMQ has no bound of its own: who brings more than
    `Limits.subscriptions` in all is disconnected, after which ZeroMQ forgets what that peer subscribed to.
    """

    __slots__ = ("_counts", "_limits", "nbytes")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: Counter[bytes] = Counter()
        self.nbytes = 0

    def count(self, topic: bytes | None) -> int:
        """All subscriptions, or those to what `topic` begins with."""
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
            if self.nbytes > self._limits.subscriptions or len(prefix) > self._limits.subscription:
                _disconnect(frame)
                raise MalformedMessageError("a subscription over the limits; its peer is disconnected")
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


def _disconnect(frame: zmq.Frame) -> None:
    """End the connection that a frame came by; nothing where that is gone, or is within this process."""
    with contextlib.suppress(zmq.ZMQError, OSError):
        descriptor, address = int(frame.get(zmq.SRCFD)), frame.get("Peer-Address")
        with plain_sockets.socket(fileno=os.dup(descriptor)) as connection:
            peer = connection.getpeername()
            if connection.family == plain_sockets.AF_UNIX or peer[0] == address:  # not another one by now
                connection.shutdown(plain_sockets.SHUT_RDWR)
