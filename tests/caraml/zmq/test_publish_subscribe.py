"""Publish and subscribe: topics, message numbers, missed messages, plain ZeroMQ publishers."""

import time

import numpy as np
import pytest
import zmq

import caraml
from caraml.zmq.pubsub.topic_frame import (
    OPENING,
)


@pytest.mark.parametrize(("topic", "reason"), [(bytes(65_536), "65535"), (b"a" + OPENING, "ends topics")])
def test_invalid_topics_are_refused(topic, reason):
    with caraml.ZmqPub(address="inproc://topics") as publisher, pytest.raises(ValueError, match=reason):
        publisher.pub(topic, b"x")


@pytest.fixture
def pair(request):
    """A publisher and a subscriber to the prefix `t`, in this process."""
    with (
        caraml.ZmqPub(address="inproc://pair", hwm=0) as publisher,
        caraml.ZmqSub(address="inproc://pair", topic="t", hwm=0) as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        yield publisher, subscriber


def test_messages_of_mixed_topics_and_sizes_arrive_in_order(pair):
    publisher, subscriber = pair
    generator = np.random.default_rng(4)
    sizes = [0, 1, 100, 9000, 70_000, 300_000]
    sent = [
        (f"t{topic}", bytes([n % 256]) * sizes[size])
        for n, (topic, size) in enumerate(generator.integers((0, 0), (3, 6), (400, 2)))
    ]
    for topic, data in sent:
        publisher.pub(topic, data)
    for n, (topic, data) in enumerate(sent):
        received = subscriber.recv(timeout=5) if n % 5 == 0 else subscriber.recv()
        assert (subscriber.topic, received) == (topic.encode(), data)
    assert (subscriber.missed, subscriber.rejected, subscriber.pending) == (0, 0, 0)


def test_an_unsent_message_does_not_count_as_missed():
    with (
        caraml.ZmqPub(port=0, policy="block", hwm=2, timeout=0.1) as publisher,
        caraml.ZmqSub(address=publisher.address, topic="", hwm=2) as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        sent = refused = 0
        while refused < 3:
            try:
                publisher.pub("t", bytes(200_000))
                sent += 1
            except caraml.ZmqTimeoutError:
                refused += 1
        assert len([subscriber.recv(timeout=5) for _ in range(sent)]) == sent
        publisher.pub("t", b"last", timeout=5)
        assert subscriber.recv(timeout=5) == b"last"
        assert subscriber.missed == 0


def test_a_subscriber_also_reads_plain_zeromq_publishers():
    with zmq.Context() as context, context.socket(zmq.PUB) as plain:
        plain.linger = 0
        port = plain.bind_to_random_port("tcp://127.0.0.1")
        with (
            caraml.ZmqPub(port=0) as publisher,
            caraml.ZmqSub(address=publisher.address, topic="t") as subscriber,
        ):
            subscriber.socket.unwrap().connect(f"tcp://127.0.0.1:{port}")
            publisher.wait_subscribers(1, timeout=5)
            time.sleep(0.3)
            expected = []
            for n in range(50):
                publisher.pub("t", b"ours %d" % n)
                plain.send_multipart([b"t", b"plain %d" % n])
                plain.send_multipart([b"t", b"one part", b"too many"])
                plain.send(b"t and no data")
                expected += [b"ours %d" % n, b"plain %d" % n]
            assert sorted(subscriber.recv(timeout=5) for _ in expected) == sorted(expected)
            with pytest.raises(caraml.ZmqTimeoutError):
                subscriber.recv(timeout=0.2)
            assert (subscriber.missed, subscriber.rejected) == (0, 100)
