"""A silent connection, such as a tcp probe of Kubernetes, is neither a peer nor an error."""

import logging
import socket
import threading
import warnings
from typing import Any

import pytest

from caraml.zmq import ZmqClient, ZmqPub, ZmqPuller, ZmqPusher, ZmqServer, ZmqSub


def _dial(port: int) -> None:
    for _ in range(50):
        socket.create_connection(("127.0.0.1", port), 5).close()


def test_bound_sockets_ignore_connections_that_send_nothing(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    place: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ZmqPuller(**place, timeout=10) as puller:
            _dial(port)
            with ZmqPusher(**place, timeout=10) as pusher:
                pusher.push(b"batch")
                assert bytes(puller.pull()) == b"batch"
            _dial(port)
            assert puller.denied == []
        with ZmqServer(**place, timeout=10) as server, ZmqClient(**place, timeout=10) as client:
            _dial(port)
            answers: list[object] = []
            asking = threading.Thread(target=lambda: answers.append(bytes(client.request(b"question"))))
            asking.start()
            assert bytes(server.recv()) == b"question"
            _dial(port)
            server.send(b"answer")
            asking.join(10)
            assert answers == [b"answer"]
        with ZmqPub(**place) as pub, ZmqSub(**place, topic="t", timeout=10) as sub:
            _dial(port)
            pub.wait_subscribers(1, 10)
            pub.pub("t", b"news")
            assert bytes(sub.recv()) == b"news"
            assert pub.subscribers() == 1
    assert caplog.records == []
