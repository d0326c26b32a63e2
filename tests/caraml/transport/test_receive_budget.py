"""The budget of unread bytes: a peer far over it is disconnected, a well-behaved peer never."""

import os
import socket
import struct
import threading
import time

import numpy as np
import pytest

import caraml
from caraml import Limits
from caraml.keys import make_keys
from caraml.transport.receive_budget import ReceiveBudget

MIB = 1 << 20
LIMITS = Limits(message_bytes=MIB, unread_bytes=16 * MIB)


def zmtp_connection(address, kind):
    """Open a raw ZMTP connection."""
    connection = socket.create_connection((address.host, address.port), 10)
    connection.sendall(b"\xff" + bytes(8) + b"\x7f\3\0" + b"NULL".ljust(52, b"\0"))
    ready = b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    connection.sendall(b"\4" + bytes([len(ready)]) + ready)
    return connection


def count_accepted_parts(connection, first, flags):
    """Send parts of 1 MiB until the connection breaks, and return how many were accepted."""
    connection.sendall(first)
    connection.settimeout(2)
    frame = bytes([flags]) + struct.pack(">Q", MIB) + bytes(MIB)
    for sent in range(400):
        try:
            connection.sendall(frame)
        except OSError:
            return sent
        time.sleep(0.004)
    return 400


def wait(receive):
    with pytest.raises(caraml.ClosedError):
        receive(timeout=30)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("waiting", [False, True], ids=["unread", "waiting"])
@pytest.mark.parametrize(
    ("receiver", "kind", "first"),
    [
        (caraml.ZmqPuller, b"PUSH", b""),
        (caraml.ZmqServer, b"DEALER", b"\1\0"),
        (lambda **o: caraml.ZmqSub(bind=True, topic="", **o), b"PUB", b""),
        (caraml.ZmqReceiver, b"DEALER", b""),
        (caraml.ZmqPub, b"SUB", b""),
    ],
    ids=["PULL", "REP", "SUB", "ROUTER", "XPUB"],
)
def test_a_peer_that_never_ends_a_message_is_disconnected(receiver, kind, first, waiting):
    """400 parts of 1 MiB once took 401 MB of a puller: ZeroMQ does not count the parts of a message."""
    with receiver(port=0, limits=LIMITS) as end:
        receive = {caraml.ZmqPuller: "pull"}.get(receiver, "recv")
        if waiting and receiver is not caraml.ZmqPub:
            threading.Thread(target=wait, args=(getattr(end, receive),), daemon=True).start()
        with zmtp_connection(end.socket, kind) as connection:
            assert count_accepted_parts(connection, first, 3) < 400
        if waiting:
            end.close(0)


@pytest.mark.timeout(60)
def test_an_endless_message_is_disconnected_while_other_peers_are_served():
    """Also if the reader always finds small messages and never waits."""
    with (
        caraml.ZmqPuller(port=0, limits=LIMITS) as puller,
        zmtp_connection(puller.socket, b"PUSH") as connection,
    ):
        done = threading.Event()

        def push():
            with caraml.ZmqPusher(address=puller.address) as pusher:
                while not done.is_set():
                    pusher.push(bytes(100))

        threading.Thread(target=push, daemon=True).start()
        taken = []
        flood = threading.Thread(target=lambda: taken.append(count_accepted_parts(connection, b"", 3)))
        flood.start()
        while flood.is_alive():
            assert puller.pull(timeout=10) == bytes(100)
        done.set()
        assert taken[0] < 400


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "keyed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["without keys", "keys"]
)
def test_well_behaved_peers_are_never_disconnected(tmp_path, keyed):
    """Every peer sends many times the budget, in all sizes, to a puller that pauses."""
    if keyed:
        make_keys(tmp_path)
    keys = tmp_path if keyed else None
    sizes = [16, 200_000, 900_000, 10, 40_000]
    with caraml.ZmqPuller(port=0, limits=LIMITS, keys=keys, deserializer="msgpack") as puller:

        def push(number):
            with caraml.ZmqPusher(
                address=puller.address, keys=keys, serializer="msgpack", limits=LIMITS
            ) as pusher:
                for n in range(400):
                    pusher.push([number, n, np.zeros(sizes[n % 5], np.uint8)])
                for n in range(400, 20_000):
                    pusher.push([number, n, None])

        pushers = [threading.Thread(target=push, args=(number,), daemon=True) for number in range(3)]
        for pusher in pushers:
            pusher.start()
        seen = [0, 0, 0]
        for count in range(60_000):
            number, n, _ = puller.pull(timeout=20)
            assert n == seen[number]
            seen[number] += 1
            if count in (0, 100, 500, 800):
                time.sleep(0.3)
        budget = puller.socket.link.budget
        assert budget is not None
        assert budget.dropped == 0
        for pusher in pushers:
            pusher.join(10)


def test_a_reused_descriptor_is_not_closed():
    """A pipe of another thread may reuse the descriptor of a closed connection."""
    with caraml.ZmqPuller(port=0) as puller:
        budget = ReceiveBudget(puller._wire, MIB)
        number = socket.create_connection(("127.0.0.1", puller.socket.port)).detach()
        budget.opened(number)
        read, write = os.pipe()
        # Closes the connection, and takes its number before a thread of ZeroMQ can.
        os.dup2(read, number)
        os.close(read)
        budget.look()
        os.close(write)
        os.set_blocking(number, False)
        assert os.read(number, 1) == b"", "the descriptor is no longer the pipe"
        os.close(number)
    assert budget.wait_ms() == -1
