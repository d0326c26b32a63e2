"""ZmqSender and ZmqReceiver: a restarted sender, sessions, limits."""

import threading
import time

import pytest
import zmq

import caraml
from caraml.zmq.acknowledged.protocol import (
    HEAD_BYTES,
    HELLO,
    pack_head,
)


@pytest.fixture
def receiver():
    with caraml.ZmqReceiver(port=0) as made:
        yield made


def peer_of(endpoint, mode=zmq.DEALER):
    """Return a plain ZeroMQ socket connected to the endpoint."""
    raw = zmq.Context.instance().socket(mode)
    raw.linger, raw.sndtimeo, raw.rcvtimeo = 0, 5000, 5000
    raw.connect(endpoint.address)
    return raw


def receive_all(receiver, into, pause=0.0, timeout=2.0):
    def run():
        try:
            while True:
                into.append(receiver.recv(timeout=timeout))
                time.sleep(pause)
        except (caraml.ZmqTimeoutError, caraml.ClosedError):
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.timeout(20)
def test_a_receiver_reconnects_to_a_restarted_binding_sender():
    sender = caraml.ZmqSender(port=0, bind=True, timeout=5)
    receiver = caraml.ZmqReceiver(address=sender.address, bind=False)
    got = []
    receiving = receive_all(receiver, got)
    sender.send(b"1")
    assert sender.close(timeout=5)
    with caraml.ZmqSender(address=sender.address, bind=True, timeout=5) as again:
        again.send(b"2")
        again.flush(timeout=5)
    receiving.join(5)
    assert got == [b"1", b"2"]
    receiver.close()


@pytest.mark.timeout(20)
def test_a_connection_cannot_open_several_sessions_and_evict_others(receiver):
    sender = caraml.ZmqSender(address=receiver.address, timeout=5)
    got = []
    receiving = receive_all(receiver, got, timeout=3.0)
    sender.send(b"a")
    sender.flush(timeout=5)
    attacker = peer_of(receiver)
    for n in range(5000):
        attacker.send(pack_head(HELLO, session=(n + 10, 1), first=1))
    for _ in range(5000):
        attacker.recv()
    assert len(receiver._sessions) == 2
    sender.send(b"b")
    sender.flush(timeout=5)
    sender.close(0)
    attacker.close(0)
    receiver.stop()
    receiving.join(10)
    assert (got, receiver.rejected, receiver.duplicates) == ([b"a", b"b"], 0, 0)


@pytest.mark.timeout(20)
def test_a_message_over_the_senders_limits_raises():
    limits = caraml.Limits(message_bytes=10_000)
    with (
        caraml.ZmqReceiver(port=0, limits=limits) as receiver,
        caraml.ZmqSender(address=receiver.address, limits=limits, timeout=5) as sender,
    ):
        got = []
        receiving = receive_all(receiver, got, timeout=0.5)
        for nbytes in (10_000, 10_000 - HEAD_BYTES + 1):
            with pytest.raises(caraml.MessageTooLargeError, match=str(nbytes)):
                sender.send(bytes(nbytes))
        sender.send(bytes(10_000 - HEAD_BYTES))
        sender.flush(timeout=5)
        receiving.join(5)
        assert [len(message) for message in got] == [10_000 - HEAD_BYTES]
        assert sender.socket.link.lost == 0
