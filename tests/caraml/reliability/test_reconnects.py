"""Acknowledged messages over connections that are cut repeatedly; connections without an answer."""

import select
import socket
import sys
import threading

import psutil
import pytest

import caraml
from tests.sandbox import wait_for

MESSAGES, CUTS = 10_000, 10
RECEIVE = """
    import sys, zlib, caraml
    if sys.argv[2] == "receiver":
        receiver = caraml.ZmqReceiver(port=0)
        print(receiver.address)
    else:
        receiver = caraml.ZmqReceiver(address=sys.argv[3], bind=False)
    for expected in range(int(sys.argv[1])):
        message = receiver.recv(timeout=60)
        number, check = int.from_bytes(message[:8], "little"), int.from_bytes(message[8:12], "little")
        assert number == expected, (number, expected)
        assert receiver.identifier == number + 1
        assert zlib.crc32(message[12:]) == check
    receiver.close()
    print("all")
"""
SEND = """
    import random, sys, time, zlib, caraml
    if sys.argv[3] == "sender":
        sender = caraml.ZmqSender(port=0, bind=True, timeout=60)
        print(sender.address)
    else:
        sender = caraml.ZmqSender(address=sys.argv[4], timeout=60)
    generator = random.Random(0)
    for number in range(int(sys.argv[1])):
        body = generator.randbytes(generator.randrange(64))
        sender.send(number.to_bytes(8, "little") + zlib.crc32(body).to_bytes(4, "little") + body)
        if number % (int(sys.argv[1]) // int(sys.argv[2])) == 0:
            print(number)
            time.sleep(0.15)  # so that every cut is one of its own
    print("closed", sender.close(timeout=60), sender.socket.link.lost)
"""


class Forwarder:
    """A TCP forwarder whose connections can be cut."""

    def __init__(self, address: str) -> None:
        self._target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._peers: dict[socket.socket, socket.socket] = {}
        self._cut = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, *self._peers], [], [], 0.02)
            if self._cut.is_set():
                self._cut.clear()
                self._close(*self._peers)
                continue
            for end in ready:
                if end is self._listener:
                    near, far = end.accept()[0], socket.create_connection(self._target)
                    self._peers |= {near: far, far: near}
                elif end in self._peers:
                    self._forward(end, self._peers[end])

    def _forward(self, end: socket.socket, peer: socket.socket) -> None:
        try:
            data = end.recv(1 << 16)
            peer.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(end, peer)

    def _close(self, *ends: socket.socket) -> None:
        for end in ends:
            self._peers.pop(end, None)
            end.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("binder", ["receiver", "sender"])
def test_all_messages_arrive_once_and_in_order_over_reconnects(spawn, binder):
    if binder == "receiver":
        receiver = spawn(RECEIVE, MESSAGES, binder)
        wire = Forwarder(receiver.line())
        sender = spawn(SEND, MESSAGES, CUTS, binder, wire.address)
    else:
        sender = spawn(SEND, MESSAGES, CUTS, binder)
        wire = Forwarder(sender.line())
        receiver = spawn(RECEIVE, MESSAGES, binder, wire.address)
    while not (line := sender.line()).startswith("closed"):
        wire.cut()
    _, delivered, lost = line.split()
    assert delivered == "True"
    assert int(lost) >= CUTS // 2  # the connection really was cut
    assert receiver.line() == "all"


@pytest.mark.thorough
@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse connections beyond the backlog")
def test_a_connection_without_an_answer_is_tried_again_from_another_port():
    """As with a Kubernetes Service of which the node did not know yet at the first packet."""

    def dialling():
        found = psutil.Process().net_connections()
        return {each.laddr.port for each in found if each.status == psutil.CONN_SYN_SENT}

    # The kernel drops the packets of connections beyond the backlog.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        with socket.create_connection(address), caraml.ZmqPusher(address="{}:{}".format(*address)):
            wait_for(dialling, 5, "it dials")
            first = dialling()
            wait_for(lambda: dialling() - first, 20, "it dials from another port")
