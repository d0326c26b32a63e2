"""The frames of publish and subscribe: topics, numbers, what is refused, and what is fetched ahead."""

import time

import numpy as np
import pytest
import zmq

import caraml
from caraml.errors import MalformedMessageError
from caraml.zmq.pubsub.topic_frame import (
    INLINE,
    LAST_NUMBER,
    OPENING,
    header,
    headers,
    read_head,
    start,
)


@pytest.mark.parametrize("number", [0, 1, 254, 255, 256, 65_535, LAST_NUMBER - 1, LAST_NUMBER])
def test_prepared_headers_are_those_made_one_by_one(number):
    prepared = list(headers(start(b"topic", INLINE, 7), number))
    assert prepared == [header(b"topic", INLINE, 7, number + n) for n in range(256 - number % 256)]
    assert list(headers(start(b"topic", INLINE, 7), number, 3)) == prepared[:3]


@pytest.mark.parametrize("topic", [b"", b"t", "ö/ä".encode(), b"\xca", b"\xca\x08\xf6", bytes(65_535)])
@pytest.mark.parametrize("data", [b"", b"x", OPENING * 3, bytes(20_000)])
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_head_is_read_as_it_was_written(topic, data, kind):
    frame = kind(header(topic, INLINE, 7, LAST_NUMBER) + data)
    head = read_head(frame)
    assert head is not None
    assert head[:4] == (topic, INLINE, 7, LAST_NUMBER)
    assert frame[head.data :] == data


def test_what_no_publisher_made_is_told_from_what_was_cut_short():
    assert read_head(b"topic of a plain publisher") is None
    assert read_head(bytes(1 << 20)) is None
    with pytest.raises(MalformedMessageError, match="cut short"):
        read_head(header(b"t", INLINE, 7, 0)[:-1])


@pytest.mark.parametrize(("topic", "reason"), [(bytes(65_536), "65535"), (b"a" + OPENING, "ends topics")])
def test_topics_that_cannot_be_published(topic, reason):
    with caraml.ZmqPub(address="inproc://topics") as publisher, pytest.raises(ValueError, match=reason):
        publisher.pub(topic, b"x")


@pytest.fixture
def pair(request):
    """A publisher and a subscriber of everything that begins with `t`, in this process."""
    with (
        caraml.ZmqPub(address="inproc://pair", hwm=0) as publisher,
        caraml.ZmqSub(address="inproc://pair", topic="t", hwm=0) as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        yield publisher, subscriber


def test_numbers_go_on_over_the_last_one_and_nothing_is_missed(pair):
    publisher, subscriber = pair
    publisher.pub("t", b"first")
    assert subscriber.recv() == b"first"
    for near in (LAST_NUMBER - 700, 3):
        publisher._topics["t"].go_on_at(near)
        publisher.pub("t", b"again")
        assert subscriber.recv() == b"again"
        subscriber.missed = 0
        for n in range(1000):
            publisher.pub("t", b"%d" % n)
        assert [subscriber.recv() for _ in range(1000)] == [b"%d" % n for n in range(1000)]
        assert (subscriber.missed, subscriber.rejected) == (0, 0)


@pytest.mark.parametrize("gap", [1, 300])
def test_what_was_dropped_is_counted_once(pair, gap):
    publisher, subscriber = pair
    for _ in range(300):
        publisher.pub("t", b"x")
    topic = publisher._topics["t"]
    topic.go_on_at(topic.next_number() + gap)  # as if these were dropped
    for _ in range(300):
        publisher.pub("t", b"y")
    assert [subscriber.recv() for _ in range(600)] == [b"x"] * 300 + [b"y"] * 300
    assert subscriber.missed == gap


def test_topics_and_sizes_mixed_arrive_in_order(pair):
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


def test_a_message_that_cannot_be_sent_leaves_nothing_behind(pair):
    publisher, subscriber = pair
    publisher.pub("t", b"before")
    with pytest.raises(TypeError):
        publisher.pub("t", "text without a serializer")
    publisher.pub("t", b"after")
    assert [subscriber.recv(timeout=5), subscriber.recv(timeout=5)] == [b"before", b"after"]
    assert (subscriber.missed, subscriber.rejected) == (0, 0)


def test_a_message_that_was_not_sent_was_not_missed():
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


def test_plain_publishers_are_understood_between_ours():
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


@pytest.mark.parametrize("frames", [[77], [1], [2, b"x"], [3], [0, b"x"]])
def test_kinds_that_do_not_fit_their_parts_are_rejected(frames):
    with zmq.Context() as context, context.socket(zmq.PUB) as attacker:
        attacker.linger = 0
        port = attacker.bind_to_random_port("tcp://127.0.0.1")
        with caraml.ZmqSub(port=port, topic="t") as subscriber:
            time.sleep(0.3)
            kind, *rest = frames
            attacker.send_multipart([header(b"t", kind, 7, 0) + b"data", *rest])
            attacker.send_multipart([b"t", b"plain"])
            assert subscriber.recv(timeout=5) == b"plain"
            assert subscriber.rejected == 1


def test_what_is_remembered_of_topics_is_bounded(pair):
    publisher, subscriber = pair
    for n in range(400):
        publisher.pub(b"t%d" % n + bytes(65_000), b"x")
        subscriber.recv()
    assert sum(len(topic) for topic, _ in subscriber._seen) <= 16 << 20
    for n in range(100):
        subscriber.subscribe(f"t{n}")
        subscriber.unsubscribe(f"t{n}")
    deadline = time.monotonic() + 5
    while publisher.subscribers() != 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert publisher._subscriptions.nbytes < 100
