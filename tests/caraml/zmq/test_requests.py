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
        # The first request returns part 1 alone; the next finds the others and raises before it sends.
        with pytest.raises(caraml.MalformedMessageError, match="3 parts where one was expected"):
            client.request(b"second")
        assert client.rejected == 1
        assert client.request(b"third") in (b"4", "4", 4)
    thread.join()
    context.destroy(0)


def test_an_exception_in_the_handler_reaches_its_client_and_the_server_continues():
    keywords: dict[str, Any] = {"serializer": "msgpack", "deserializer": "msgpack"}
    with caraml.ZmqServer(port=0, **keywords) as server:
        server.start_loop(lambda asked: asked["x"])
        with caraml.ZmqClient(address=server.address, timeout=10, **keywords) as client:
            with pytest.raises(caraml.RemoteError, match="KeyError: 'x'"):
                client.request({"y": 1})
            assert client.request({"x": 1}) == 1


@pytest.mark.parametrize("message", [[b""], [b"not a message"], [b"x"] * 100_000, [bytes(2 << 20)]], ids=len)
def test_a_malformed_or_too_large_request_is_refused_and_others_are_served(message):
    limits = caraml.Limits(message_bytes=1 << 20)
    keywords: dict[str, Any] = {"serializer": "msgpack", "deserializer": "msgpack"}
    is_too_large = len(message[0]) > limits.message_bytes
    with caraml.ZmqServer(port=0, limits=limits, **keywords) as server:
        server.start_loop(lambda asked: asked)
        with zmq.Context() as context, context.socket(zmq.REQ) as attacker:
            attacker.linger, attacker.rcvtimeo = 0, 300 if is_too_large else 5000
            attacker.connect(server.address)
            attacker.send_multipart(message)
            if is_too_large:  # the connection is cut
                with pytest.raises(zmq.Again):
                    attacker.recv_multipart()
            else:
                assert attacker.recv_multipart()[0] == FAILURE
        with caraml.ZmqClient(address=server.address, timeout=10, **keywords) as client:
            assert client.request(1) == 1
        # An oversized request is not counted: its connection was cut.
        assert server.rejected == (not is_too_large)


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
