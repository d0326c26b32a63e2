"""Over inproc, sender and receiver share no memory of a message."""

import math
import threading
from typing import Any

import numpy as np

import caraml

LARGE = 1 << 16


def test_a_request_over_inproc_is_copied_for_the_server():
    kept = []
    address = "inproc://same-process-request"
    keywords: dict[str, Any] = {"serializer": "msgpack", "deserializer": "msgpack"}
    with caraml.ZmqServer(address=address, **keywords) as server:
        server.start_loop(lambda message: kept.append(message["a"]))
        with caraml.ZmqClient(address=address, timeout=5, **keywords) as client:
            mine = np.zeros(LARGE)
            client.request({"a": mine})
            assert_separate(mine, *kept)


def assert_separate(mine, *received):
    for number, array in enumerate(received, 1):
        mine[0] = array[number] = 7
        assert array[0] == mine[number] == 0
        assert not any(other[number] for other in received if other is not array)


def test_every_subscriber_over_inproc_gets_its_own_copy():
    address = "inproc://same-process-pub"
    keywords: dict[str, Any] = {"address": address, "topic": "t", "deserializer": "msgpack"}
    with (
        caraml.ZmqPub(address=address, serializer="msgpack") as publisher,
        caraml.ZmqSub(**keywords) as each,
        caraml.ZmqSub(**keywords) as other,
    ):
        publisher.wait_subscribers(2, timeout=5)
        mine = np.zeros(LARGE)
        publisher.pub("t", {"a": mine})
        got, also = (subscriber.recv(timeout=5)["a"] for subscriber in (each, other))
        assert_separate(mine, got, also)


def test_a_push_over_inproc_is_copied_for_the_puller():
    address = "inproc://same-process-push"
    with (
        caraml.ZmqPuller(address=address, deserializer="msgpack") as puller,
        caraml.ZmqPusher(address=address, serializer="msgpack") as pusher,
    ):
        mine = np.zeros(LARGE)
        pusher.push({"a": mine})
        got = puller.pull(timeout=5)["a"]
        assert_separate(mine, got)


def test_an_infinite_timeout_waits_for_longer_than_a_slice():
    address = "inproc://same-process-infinite"

    def push_late():
        with caraml.ZmqPusher(address=address, serializer="msgpack") as pusher:
            pusher.push({"a": 1}, timeout=math.inf)

    with caraml.ZmqPuller(address=address, bind=True, deserializer="msgpack") as puller:
        threading.Timer(0.6, push_late).start()
        assert puller.pull(timeout=math.inf) == {"a": 1}
