"""A publisher disconnects only a subscriber of too long a topic, or of too many topics at once."""

import socket
import struct
import sys
import threading
import time

import pytest
import zmq

import caraml

PUBLISHER = """
import sys, time, caraml
publisher = caraml.ZmqPub(port=0)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4 >> 10
if "receives" in sys.argv:
    publisher.socket.recv
print(publisher.socket.port, resident())
longest, most, end = 0, 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    begin = time.process_time()
    publisher.pub("t", b"x")
    longest, most = max(longest, time.process_time() - begin), max(most, resident())
    time.sleep(0.001)
print(longest, most, publisher.rejected)
publisher.close(0)
"""


TOPICS = b"".join(b"\0\xfa\1" + struct.pack(">I", n) + bytes(245) for n in range(78_000))  # 18 MiB


def flood(port):
    """Subscribe to many topics without a common prefix."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(5)
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\3\0" + b"NULL".ljust(52, b"\0"))
        received = b""
        while len(received) < 64:
            received += connection.recv(64 - len(received))
        connection.sendall(b"\4\x19\5READY\x0bSocket-Type\0\0\0\3SUB")
        assert connection.recv(1000)
        try:
            connection.sendall(TOPICS)
            time.sleep(1)
        except OSError:
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("own", ["sends", pytest.param("receives", marks=pytest.mark.thorough)])
def test_a_publisher_disconnects_a_flood_of_subscriptions(spawn, own):
    """One such subscriber once took 950 MB, and 18 s of one pub(); later only if the program received."""
    program = spawn(PUBLISHER, 8, own)
    port, before = map(int, program.line().split())
    floods = [threading.Thread(target=flood, args=(port,), daemon=True) for _ in range(20)]
    for thread in floods:
        thread.start()
    longest, most, rejected = map(float, program.line().split())
    assert most - before < 100
    assert longest < 2
    assert 1 <= rejected <= 20


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pause", [0, 0.05], ids=["publishing", "now and then"])
def test_a_subscriber_of_five_thousand_topics_stays_connected(pause):
    with caraml.ZmqPub(port=0) as publisher, zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.linger, subscriber.sndhwm, subscriber.rcvtimeo = 0, 0, 10_000
        for n in range(5000):
            subscriber.subscribe(f"experiment/worker-{n:05}")
        subscriber.connect(publisher.address)
        deadline = time.monotonic() + 20
        while publisher.subscribers() < 5000 and time.monotonic() < deadline:
            publisher.pub("other", b"x")
            time.sleep(pause)
        assert publisher.subscribers() == 5000
        publisher.pub("experiment/worker-04999", b"x")
        assert subscriber.recv().startswith(b"experiment/worker-04999")
        assert publisher.rejected == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "ipc://{}/s"], ids=["tcp", "ipc"])
def test_a_subscriber_of_too_long_a_topic_is_disconnected_whenever_it_returns(address, tmp_path):
    """Over ipc only its first connection was ended."""
    topic = "t" * 300
    with (
        caraml.ZmqPub(address=address.format(tmp_path), bind=True) as publisher,
        zmq.Context() as context,
        context.socket(zmq.SUB) as subscriber,
    ):
        subscriber.linger, subscriber.reconnect_ivl = 0, 20
        subscriber.connect(publisher.address)
        subscriber.subscribe(topic)
        while publisher.rejected < 4:
            publisher.pub(topic, b"x")
            subscriber.poll(50)
