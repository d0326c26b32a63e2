"""Limits on what a peer may make this process hold."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Bounds on one message. The sender checks them too, so that nothing vanishes silently at the receiver.

    `message_bytes` bounds the sum of all parts (and, by ZMQ_MAXMSGSIZE, each frame before it is read),
    `header_bytes` the part that holds the structure (a decoded structure takes up to 64 times its bytes),
    `parts` the frames, `depth` the nesting.
    """

    message_bytes: int = 1 << 30
    header_bytes: int = 16 << 20
    parts: int = 4096
    depth: int = 64


DEFAULT_LIMITS = Limits()
