"""Limits: a message over them raises at its sender, and batches stay within them."""

import tracemalloc

import numpy as np
import pytest
import zmq

import caraml
from caraml import Limits
from caraml.codec.parts import BATCH
from caraml.errors import MessageTooLargeError
from caraml.zmq.push_pull import BATCH_BYTES

SMALL = Limits(message_bytes=1000)
LARGER = Limits(message_bytes=1 << 20)


def pair(limits, serializer=None):
    puller = caraml.ZmqPuller(port=0, limits=limits, deserializer=serializer)
    return puller, caraml.ZmqPusher(address=puller.address, limits=limits, serializer=serializer)


@pytest.mark.parametrize(
    ("limits", "serializer", "value"),
    [
        (SMALL, None, bytes(1001)),
        (SMALL, "json", ["x" * 1001]),
        (LARGER, "pickle", np.zeros(1 << 18)),
        (LARGER, "msgpack", np.zeros(1 << 18)),
    ],
)
@pytest.mark.parametrize("way", ["push", "push_uncopied", "push_many", "request", "pub"])
def test_a_message_over_the_limits_raises_at_the_sender(limits, serializer, value, way):
    options = {"serializer": serializer, "limits": limits}
    puller, pusher = pair(limits, serializer)
    with (
        puller,
        pusher,
        caraml.ZmqClient(port=9, timeout=1, **options) as client,
        caraml.ZmqPub(port=0, **options) as publisher,
    ):
        send = {
            "request": client.request,
            "pub": lambda data: publisher.pub("t", data),
            "push_many": lambda data: pusher.push_many([data]),
        }.get(way) or getattr(pusher, way)
        with pytest.raises(MessageTooLargeError, match="over"):
            send(value)
        ok = "ok" if serializer else b"ok"
        pusher.push(ok)
        assert puller.pull(timeout=5) == ok
        assert puller.rejected == 0


def test_batched_messages_stay_within_the_limits():
    puller, pusher = pair(SMALL)
    items = [bytes([n % 256]) * (n % 300) for n in range(500)]
    with puller, pusher:
        pusher.push_many(items)
        pusher.push_many([b""] * 100_000)
        assert [puller.pull(timeout=5) for _ in items] == items
        assert [puller.pull(timeout=5) for _ in range(100_000)] == [b""] * 100_000
        assert puller.rejected == 0


def test_a_batch_of_tiny_items_takes_little_memory():
    """A batch of millions of two-byte items once took twenty times its size in memory."""
    puller = caraml.ZmqPuller(port=0)
    with puller, zmq.Context() as context, context.socket(zmq.PUSH) as peer:
        peer.linger = 0
        peer.connect(puller.address)
        for count, item in (
            (4_000_000, b"\xc4\x02ab"),
            (400_000, b"\xc4\0"),
            (3, b"\xc6\0\x10\0\0" + bytes(1 << 20)),
        ):
            peer.send_multipart([BATCH, b"\xdd" + count.to_bytes(4, "big") + item * count])
        peer.send(b"honest")
        tracemalloc.start()
        try:
            assert puller.pull(timeout=10) == b"honest"
            assert tracemalloc.get_traced_memory()[1] < 8 * BATCH_BYTES
        finally:
            tracemalloc.stop()
        assert puller.rejected == 3
