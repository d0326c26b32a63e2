"""Requests and answers of one or several message parts."""

import threading
from typing import Any

import numpy as np
import pytest
import zmq

import caraml
from caraml.codec.parts import FAILURE

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("serializer", ["msgpack", "pickle"])
def test_small_and_large_requests_in_any_order_arrive_whole(serializer):
    small, head_only, parts = {"x": 1}, {"x": b"y" * 20_000}, {"x": np.arange(40_000)}
    keywords: dict[str, Any] = {"serializer": serializer, "deserializer": serializer}
    with caraml.ZmqServer(port=0, **keywords) as server:
        server.start_loop(lambda asked: asked)
        with caraml.ZmqClient(address=server.address, timeout=10, **keywords) as client:
            for value in [small, parts, small, small, parts, parts, head_only, small, head_only, parts] * 3:
                assert np.array_equal(client.request(value)["x"], value["x"])
        assert server.rejected == 0


def test_an_answer_equal_to_the_failure_marker_is_returned_as_data():
    with caraml.ZmqServer(port=0) as server:
        server.start_loop(lambda asked: FAILURE)
        with caraml.ZmqClient(address=server.address, timeout=10) as client:
            assert client.request(b"x") == FAILURE


@pytest.mark.parametrize("deserializer", [None, "str", "json"])
def test_an_unexpected_multipart_answer_is_an_error(deserializer):
    context = zmq.Context()
    server = context.socket(zmq.REP)
    port = server.bind_to_random_port("tcp://127.0.0.1")

    def answer():
        for parts in ([b"1", b"2", b"3"], [b"4"]):
            server.recv_multipart()
            server.send_multipart(parts)

    thread = threading.Thread(target=answer)
    thread.start()
    with caraml.ZmqClient(host="127.0.0.1", port=port, timeout=10, deserializer=deserializer) as client:
        client.request(b"first")
        with pytest.raises(caraml.MalformedMessageError, match="3 parts where one was expected"):
            client.request(b"second")
        assert client.rejected == 1
        assert client.request(b"third") in (b"4", "4", 4)
    thread.join()
    context.destroy(0)


def _raises(data):
    raise KeyError(data)


@pytest.mark.parametrize("deserializer", [None, "str", _raises])
def test_an_unexpected_multipart_request_is_refused(deserializer):
    context = zmq.Context()
    client = context.socket(zmq.REQ)
    client.rcvtimeo = 10_000
    with caraml.ZmqServer(port=0, deserializer=deserializer) as server:
        server.start_loop(lambda asked: b"answer")
        client.connect(server.address)
        client.send_multipart([b"one", b"two"])
        mark, reason = client.recv_multipart()
        assert mark == FAILURE
        assert (b"KeyError" if deserializer is _raises else b"2 parts where one was expected") in reason
        assert server.rejected == 1
        client.send(b"one")
        answer = client.recv_multipart()
        assert answer[0] == (FAILURE if deserializer is _raises else b"answer")
    context.destroy(0)
