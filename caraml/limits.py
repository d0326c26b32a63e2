"""Limits on what a peer may make this process hold."""

from typing import NamedTuple

_MOST_UNREAD = 1000


class Limits(NamedTuple):
    """Bounds on what arrives; sockets take them as `limits=`. The sender checks its messages against its own,
    so that nothing vanishes silently at a receiver with the same.

    `message_bytes` bounds the sum of all parts (and, by ZMQ_MAXMSGSIZE, each frame before it is read),
    `unread_bytes` what waits on one connection until the program receives it: so many messages of
    `message_bytes` (two at least, a thousand at most) unless the socket is given `hwm=`,
    `header_bytes` the structure of a message: all but the contents of its arrays, bytes and long strings,
    `items` its lists, dicts, tuples, records and arrays (of JSON too), `parts` the frames, `depth` the
    nesting. A decoded structure takes up to 64 times its bytes, and 256 bytes an item more: under 100 MB.

    `subscription` bounds one subscription of a ZmqSub in bytes, `subscriptions` what all subscriptions at a
    ZmqPub take, each counted as 16 bytes more than its topic; ZeroMQ holds some 50 bytes for each of these.
    """

    message_bytes: int = 1 << 26
    header_bytes: int = 1 << 20
    parts: int = 4096
    depth: int = 64
    items: int = 1 << 17
    subscription: int = 255
    subscriptions: int = 1 << 21
    unread_bytes: int = 1 << 31

    def unread_messages(self) -> int:
        """The high-water mark for receiving: one message more than it is held."""
        return max(1, min(_MOST_UNREAD, self.unread_bytes // self.message_bytes - 1))


DEFAULT_LIMITS = Limits()
