"""Peers that die, never appear, freeze or are slow, with real processes and deadlines."""

import contextlib
import os
import signal
import threading
import time

import pytest

import caraml
from tests.caraml.reliability.answering import SERVER, client


@pytest.mark.timeout(60)
@pytest.mark.parametrize("timeout", [40.0, -1.0], ids=["deadline", "forever"])
def test_a_request_to_a_killed_server_raises_and_later_ones_reach_the_restarted_server(spawn, timeout):
    server = spawn(SERVER, "127.0.0.1:0")
    address = server.line()
    with client(address, timeout=timeout) as asking:
        assert asking.request({"x": 1}) == 1
        threading.Timer(0.5, server.kill).start()
        started = time.monotonic()
        with pytest.raises(caraml.ZmqTimeoutError, match=address):
            asking.request({"x": 2, "sleep": 60})
        assert time.monotonic() - started < 30  # told of the loss, it does not wait for the deadline
        server.process.wait(5)
        assert spawn(SERVER, address).line() == address
        assert [asking.request({"x": n}, timeout=5) for n in (3, 4)] == [3, 4]


@pytest.mark.timeout(30)
def test_a_late_answer_is_never_returned_for_the_next_request(spawn):
    address = spawn(SERVER, "127.0.0.1:0").line()
    with client(address) as asking:
        assert asking.request({"x": 0}) == 0
        for n in range(3):
            with pytest.raises(caraml.ZmqTimeoutError):
                asking.request({"x": f"late {n}", "sleep": 0.3}, timeout=0.1)
            assert asking.request({"x": n}, timeout=5) == n


def push_four(pusher):
    for _ in range(4):
        pusher.push(bytes(1 << 20))


@pytest.mark.timeout(20)
def test_every_blocking_call_has_a_deadline_that_names_the_address(spawn):
    address = "tcp://127.0.0.1:9"
    make = [
        lambda: caraml.ZmqClient(address=address, timeout=0.3).request(b"x"),
        lambda: caraml.ZmqSender(address=address, timeout=0.3).send(b"x"),
        lambda: push_four(caraml.ZmqPusher(address=address, timeout=0.3, hwm=1)),
        lambda: caraml.ZmqPuller(address=address, bind=False).pull(timeout=0.3),
        lambda: caraml.ZmqSub(address=address, topic="").recv(timeout=0.3),
        lambda: caraml.ZmqServer(address=address, bind=False).recv(timeout=0.3),
        lambda: caraml.ZmqReceiver(address=address, bind=False).recv(timeout=0.3),
    ]
    for call in make:
        started = time.monotonic()
        with pytest.raises(caraml.ZmqTimeoutError, match=address):
            call()
        assert time.monotonic() - started > 0.25
    with caraml.ZmqPub(port=0) as publisher, pytest.raises(caraml.ZmqTimeoutError, match=publisher.address):
        publisher.wait_subscribers(1, timeout=0.3)


@pytest.mark.timeout(20)
def test_a_frozen_peer_is_detected_by_heartbeats(spawn):
    server = spawn(SERVER, "127.0.0.1:0")
    with client(server.line(), heartbeat=0.4) as asking:
        assert asking.request({"x": 1}, timeout=5) == 1
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(caraml.PeerLostError):
            asking.request({"x": 2})


@pytest.mark.timeout(20)
def test_a_frozen_peer_is_detected_by_a_socket_that_only_receives(spawn):
    """`pull` keeps waiting, because the peer may recover; `socket.link.lost` counts the loss."""
    peer = spawn("""
        import time, caraml
        pusher = caraml.ZmqPusher(port=0, bind=True)
        print(pusher.address)
        while True:
            pusher.push(b"x")
            time.sleep(0.02)
    """)
    with caraml.ZmqPuller(address=peer.line(), bind=False, heartbeat=0.4) as puller:
        assert puller.pull(timeout=5) == b"x"
        assert puller.socket.link.lost == 0
        os.kill(peer.pid, signal.SIGSTOP)
        while puller.socket.link.lost == 0:
            with contextlib.suppress(caraml.ZmqTimeoutError):
                puller.pull(timeout=0.2)
        os.kill(peer.pid, signal.SIGCONT)
        assert puller.pull(timeout=5) == b"x"  # connected again by itself


@pytest.mark.timeout(30)
def test_a_slow_receiver_with_heartbeats_stays_connected_and_loses_nothing(spawn):
    receiver = spawn("""
        import time, caraml
        receiver = caraml.ZmqReceiver(port=0, heartbeat=0.5, window=20)
        print(receiver.address)
        for count in range(100):
            message = receiver.recv(timeout=10)
            assert int.from_bytes(message[:4], "little") == count, count
            # The sender closes as soon as the last one is acknowledged, which is no loss.
            lost = receiver.socket.link.lost if count < 99 else lost
            time.sleep(0.03)
        print(receiver.duplicates, lost)
    """)
    sender = caraml.ZmqSender(address=receiver.line(), heartbeat=0.5, timeout=10)
    for count in range(100):
        sender.send(count.to_bytes(4, "little") + bytes(1 << 16))
    assert sender.close(timeout=10)
    assert sender.socket.link.lost == 0
    assert receiver.line() == "0 0"
