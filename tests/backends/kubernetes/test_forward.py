"""A forwarded connection, with both of its ends in the hands of a test."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from symphony.backends.kubernetes import forward


class Pod:
    """Stands for the connection to a pod: what it says, what it was sent, whether it is closed."""

    def __init__(self) -> None:
        self.says: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.heard: list[bytes] = []
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield 0, b"its port"
        while data := self.says.get():
            yield 0, data

    def send(self, channel: int, data: bytes) -> None:
        self.heard.append(data)

    def close(self) -> None:
        self.closed.set()
        self.says.put(b"")

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, Pod]]:
    """The client's end of a forwarded connection, and the pod's."""
    pod = Pod()
    monkeypatch.setattr("symphony.backends.kubernetes.forward._Forwarding._opened", lambda _: pod)
    ours, theirs = socket.socketpair()
    nothing: Any = None
    with socket.create_server(("127.0.0.1", 0)) as server:
        forwarding = forward._Forwarding(nothing, "n", "s", server)
        carrying = threading.Thread(target=forwarding._carry, args=(theirs,))
        carrying.start()
        ours.settimeout(10)
        yield ours, pod
        ours.close()
        pod.close()
        carrying.join(10)


def test_a_client_that_has_said_all_gets_its_answer(ends: tuple[socket.socket, Pod]) -> None:
    client, pod = ends
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    time.sleep(0.3)
    assert not pod.closed.is_set()
    for piece in (b"ans", b"wer"):
        pod.says.put(piece)
        time.sleep(0.1)
    pod.says.put(b"")
    assert client.makefile("rb").read() == b"answer"
    assert pod.heard == [b"question"]


def test_one_that_has_gone_is_let_go_of_in_time(
    ends: tuple[socket.socket, Pod], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, pod = ends
    monkeypatch.setattr(forward, "_LINGER", 0.2)
    client.close()
    assert pod.closed.wait(5)
