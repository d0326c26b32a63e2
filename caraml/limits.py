"""Limits on the memory that a peer can make this process use."""

from typing import NamedTuple

MAX_PARTS = 4096
MAX_DEPTH = 64  # of tuples and records in each other; lists and dicts: about 1000, the limit of msgpack
MAX_HEADER_BYTES = 1 << 20  # of a message without the contents of its arrays, bytes and long strings
MAX_JSON_BRACKETS = 1 << 18  # [ and {, also those in strings
MAX_PREFIX_BYTES = 255  # of a subscription
MAX_SUBSCRIPTION_BYTES = 1 << 21  # all subscriptions of a publisher
_MAX_UNREAD_MESSAGES = 1000


class Limits(NamedTuple):
    """The limits of a socket, its argument `limits=`.

    A sender raises for a message over its own limits; a receiver drops it or disconnects its sender.

    Attributes:
        message_bytes: The size of a message, all parts together.
        unread_bytes: The bytes on one connection that the program has not received yet. It sets the
            high-water mark for receiving, unless the socket has `hwm=` or `heartbeat=`, or is inproc.
    """

    message_bytes: int = 1 << 26
    unread_bytes: int = 1 << 31

    def unread_messages(self) -> int:
        """Return the high-water mark for receiving: ZeroMQ holds one message more."""
        return max(1, min(_MAX_UNREAD_MESSAGES, self.unread_bytes // self.message_bytes - 1))


DEFAULT_LIMITS = Limits()
