"""Limits: a message over them raises at its sender, and no peer makes a receiver take much memory."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
import zmq

import caraml
from caraml import Limits, codec
from caraml.codec.parts import ARRAYS, TREE
from caraml.errors import MalformedMessageError, MessageTooLargeError
from tests.caraml.codec.codec_values import raw

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
@pytest.mark.parametrize("way", ["push", "request", "pub"])
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
            "push": pusher.push,
            "request": client.request,
            "pub": lambda data: publisher.pub("t", data),
        }[way]
        with pytest.raises(MessageTooLargeError, match="more than"):
            send(value)
        ok = "ok" if serializer else b"ok"
        pusher.push(ok)
        assert puller.pull(timeout=5) == ok
        assert puller.rejected == 0


MIB = 1 << 20


def list_of(count, item):
    return TREE + b"\xdd" + count.to_bytes(4, "big") + item * count


BOMBS = {
    "dicts of one": list_of(2 * MIB, b"\x81\x01\x01"),
    "lists in a tuple": TREE
    + b"\xc9"
    + (2 * MIB + 5).to_bytes(4, "big")
    + b"\x05"
    + list_of(MIB >> 2, b"\xa5abcde\x90\x90")[2:],
    "lists after text": list_of(2 * MIB, b"\xa1x\x90\xa3abc"),
    "short strings": list_of(2 * MIB, b"\xa2ab"),
    "layout": ARRAYS + (8 * MIB + 5).to_bytes(4, "little") + list_of(2 * MIB, b"\x92\xa0\xc4\0")[2:],
}


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * name.startswith(("dicts", "lists")))
        for name in BOMBS
    ],
)
def test_a_message_that_expands_to_many_times_its_size_is_refused(bomb):
    """15 MB of empty lists once took 1.3 GB."""
    message = BOMBS[bomb]
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError, match=r"more than|maximum"):
            codec.Decoder().decode(message)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(message)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"[%s[]]" % (b"[]," * 300_000), b"[%s1]" % (b'{"a":1},' * 300_000)])
def test_json_of_too_many_lists_is_refused(text):
    with (
        caraml.ZmqPuller(port=0, deserializer="json") as puller,
        caraml.ZmqPusher(address=puller.address) as raw,
    ):
        raw.push(text)
        # The answer to the next message shows that the first was refused, however long that took.
        raw.push(b"1")
        assert puller.pull(timeout=30) == 1
        assert "262144" in str(puller.last_rejection)
        with (
            caraml.ZmqPusher(address=puller.address, serializer="json") as pusher,
            pytest.raises(MessageTooLargeError, match="262144"),
        ):
            pusher.push(json.loads(text))


@pytest.mark.parametrize(
    "value",
    [
        [np.full(15_000, n, "f4") for n in range(100)],
        {f"layer {n}": np.full(15_000, n, "f4") for n in range(100)},
        {"text": "ö" * 3_000_000, "bytes": bytes(60_000)},
        [{"observation": np.full(100, n, "f4"), "done": False, "reward": 1.5} for n in range(20_000)],
        [0.5] * 100_000,
        list(range(200_000)),
    ],
    ids=["arrays", "dict", "text", "steps", "floats", "integers"],
)
def test_large_arrays_and_texts_do_not_count_as_structure(value):
    """Messages of megabytes pass the default limits."""
    encoded = codec.Encoder().encode(value)
    head, *rest = encoded if isinstance(encoded, list) else [encoded]
    decoded: Any = codec.Decoder().decode(raw(head), rest)
    assert len(decoded) == len(value)
    first = value[0] if isinstance(value, list) else next(iter(value.values()))
    again = decoded[0] if isinstance(value, list) else next(iter(decoded.values()))
    assert repr(again) == repr(first)


def test_a_too_long_subscription_is_an_error():
    with (
        caraml.ZmqPub(port=0) as publisher,
        caraml.ZmqSub(address=publisher.address, topic=b"t" * 255) as subscriber,
    ):
        with pytest.raises(ValueError, match="255"):
            subscriber.subscribe(b"t" * 256)
        publisher.wait_subscribers(1, timeout=5)
        publisher.pub(b"t" * 5000, b"x")
        assert subscriber.recv(timeout=5) == b"x"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("receiver", "most"),
    [(caraml.ZmqServer, 1000), (lambda **options: caraml.ZmqReceiver(window=8, **options), 3000)],
    ids=["server", "receiver"],
)
def test_a_busy_server_or_receiver_queues_few_messages_of_one_peer(receiver, most):
    """The server once held a thousand, of up to 1 GiB each; an honest client has one under way."""
    with receiver(port=0) as end, zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger, peer.sndtimeo, peer.sndhwm = 0, 1000, 1
        peer.connect(end.address)
        with pytest.raises(zmq.Again):  # noqa: PT012
            for _ in range(most):
                peer.send_multipart([b"", bytes(1 << 16)])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "bound",
    [
        pytest.param("hwm=8, limits=L(1 << 20)", marks=pytest.mark.thorough),
        "limits=L(1 << 20, unread_bytes=9 << 20)",
    ],
)
def test_unread_messages_of_a_connection_are_bounded(spawn, bound):
    """Each sender soon blocks; the receiver counts what it holds."""
    program = spawn(
        """
        import pathlib, sys, caraml
        def mib(): return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20
        puller = eval(f"caraml.ZmqPuller(port=0, {sys.argv[1]})", {"caraml": caraml, "L": caraml.Limits})
        before = mib()
        print(puller.socket.port, flush=True)
        input()
        print(mib() - before, flush=True)
        """,
        bound,
        stdin=True,
    )
    port, peers = int(program.line()), 3
    with zmq.Context() as context:
        sockets = [context.socket(zmq.PUSH) for _ in range(peers)]
        for peer in sockets:
            peer.linger, peer.sndhwm, peer.sndtimeo = 0, 1, 2000
            peer.connect(f"tcp://127.0.0.1:{port}")
            with pytest.raises(zmq.Again):
                _flood(peer)
        program.tell("")
        assert peers * 8 <= int(program.line()) <= peers * 9 + 4
        for peer in sockets:
            peer.close(0)


def _flood(peer):
    for _ in range(200):
        peer.send(bytes(MIB))
