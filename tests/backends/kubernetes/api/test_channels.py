"""Streams of `exec` to a scripted API server: late input, unread input, arguments that are not UTF-8."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator

import pytest

from symphony.backends.kubernetes.api import channels
from symphony.backends.kubernetes.api import client as client_module
from symphony.backends.kubernetes.api.client import Client, Unreachable
from tests.backends.kubernetes.scripted_api import client_to

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
SIZE = 8 * 1024 * 1024


class Server:
    """A server of one connection, which reads and answers pings only when the test allows it."""

    def __init__(self) -> None:
        self.may_read = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            stream = connection.makefile("rb")
            head = dict(line.split(b": ", 1) for line in iter(stream.readline, b"\r\n") if b": " in line)
            key = base64.b64encode(hashlib.sha1(head[b"Sec-WebSocket-Key"].strip() + _MAGIC).digest())
            connection.sendall(
                b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: "
                b"v5.channel.k8s.io\r\nSec-WebSocket-Accept: " + key + b"\r\n\r\n"
            )
            self.may_read.wait(30)
            count = 0
            for message in _messages(stream.read):
                if message == bytes([channels.CLOSE, channels.STDIN]):
                    break
                count += len(message) - 1 if message[:1] == bytes([channels.STDIN]) else 0
            result = bytes([channels.STDOUT]) + str(count).encode()
            connection.sendall(bytes([0x82, len(result)]) + result)


def _messages(take: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the messages of a client, unmasked and without pings."""
    while head := take(2):
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", take(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", take(8))
        mask, data = take(4), take(size)
        if head[0] & 0x0F in (1, 2):
            whole = int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
            yield whole.to_bytes(size, "big")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[Server]:
    monkeypatch.setattr(channels, "_PING", 0.1)
    monkeypatch.setattr(channels, "_SILENCE", 0.5)
    made = Server()
    yield made
    made.may_read.set()
    made.thread.join(10)
    made.listener.close()


def open_channels(server: Server) -> channels.Channels:
    return channels.Channels(client_to(server.url), "/exec", [], ["v5.channel.k8s.io"])


def send_in_background(connection: channels.Channels) -> threading.Thread:
    def send() -> None:
        with contextlib.suppress(ConnectionError):
            connection.send(channels.STDIN, b"x" * SIZE)
            connection.end(channels.STDIN)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def test_a_process_that_reads_late_gets_all_input(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "get", lambda self, path: {})
    threading.Timer(2, server.may_read.set).start()
    with open_channels(server) as connection:
        thread = send_in_background(connection)
        assert next(iter(connection)) == (channels.STDOUT, str(SIZE).encode())
        thread.join(10)


def test_input_that_is_never_read_raises_unreachable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_DEADLINE", 1.0)
    monkeypatch.setattr(client_module, "PATIENCE", 0)
    began = time.monotonic()
    with open_channels(server) as connection:
        send_in_background(connection)
        with pytest.raises(Unreachable, match="does not answer"):
            next(iter(connection))
    assert 1 < time.monotonic() - began < 10


def test_exec_arguments_that_are_not_utf8_reach_the_server_unchanged(server: Server) -> None:
    query = [("command", "caf\udce9")]
    with channels.Channels(client_to(server.url), "/exec", query, ["v5.channel.k8s.io"]) as connection:
        connection.end(channels.STDIN)
        server.may_read.set()
        assert next(iter(connection)) == (channels.STDOUT, b"0")
