"""Corner cases of all classes: close from another thread, the raw socket, deadlines, handshakes."""

import threading
import time

import numpy
import pytest
import zmq

import caraml
from caraml.limits import MAX_PARTS
from caraml.transport import socket_monitor
from caraml.zmq.pubsub.topic_frame import INLINE, header


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["puller", "receiver", "subscriber", "pusher"])
def test_close_ends_a_blocking_call_in_another_thread(kind):
    made, call = {
        "puller": lambda: ((end := caraml.ZmqPuller(port=0)), end.pull),
        "receiver": lambda: ((end := caraml.ZmqReceiver(port=0)), end.recv),
        "subscriber": lambda: ((end := caraml.ZmqSub(address="127.0.0.1:9", topic="")), end.recv),
        "pusher": lambda: (
            (end := caraml.ZmqPusher(address="127.0.0.1:9", hwm=1)),
            lambda: [end.push(b"x") for _ in range(9)],
        ),
    }[kind]()
    outcome = []

    def run():
        try:
            call()
        except caraml.CaramlError as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.2)
    began = time.monotonic()
    made.close(0)
    assert time.monotonic() - began < 10
    assert made.socket.closed
    thread.join(10)
    assert outcome == [caraml.ClosedError]


@pytest.mark.timeout(20)
def test_blocking_calls_on_the_raw_socket_wait_as_in_pyzmq():
    with caraml.ZmqPuller(port=0) as puller, caraml.ZmqPusher(address=puller.address) as pusher:
        threading.Timer(0.6, pusher.push, (b"late",)).start()
        assert puller.socket.recv() == b"late"
        threading.Timer(0.6, pusher.push, (b"later",)).start()
        assert puller.socket.recv_multipart() == [b"later"]
        with pytest.raises(zmq.Again):
            puller.socket.recv(zmq.NOBLOCK)
        with pytest.raises(zmq.Again):
            puller.socket.recv(flags=zmq.NOBLOCK)
        puller.socket.rcvtimeo = 100
        began = time.monotonic()
        with pytest.raises(zmq.Again):
            puller.socket.recv()
        assert time.monotonic() - began > 0.05


@pytest.mark.timeout(20)
@pytest.mark.parametrize("blocking", [True, False])
def test_start_loop_on_a_closed_socket_raises(blocking):
    server = caraml.ZmqServer(port=0)
    server.close()
    with pytest.raises(caraml.ClosedError, match=server.address):
        server.start_loop(len, blocking=blocking)


@pytest.mark.timeout(20)
def test_a_blocking_loop_returns_when_stopped_or_closed():
    for end in ("stop", "close"):
        server = caraml.ZmqServer(port=0)
        threading.Timer(0.3, getattr(server, end)).start()
        assert server.start_loop(len, blocking=True) is None
        server.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["puller", "subscriber"])
def test_the_deadline_of_recv_holds_while_unwanted_messages_keep_coming(kind):
    """They are rejected, or not subscribed to."""
    if kind == "puller":
        end = caraml.ZmqPuller(port=0, deserializer="msgpack")
        noise = zmq.Context.instance().socket(zmq.PUSH)
        noise.connect(end.address)
        receive, message = end.pull, b"junk"
    else:
        noise = zmq.Context.instance().socket(zmq.PUB)
        end = caraml.ZmqSub(port=noise.bind_to_random_port("tcp://127.0.0.1"), topic="topic")
        receive, message = end.recv, header(b"topi", INLINE, 1, 0)
        end.socket.unwrap().setsockopt(zmq.SUBSCRIBE, b"")
    stop = threading.Event()

    def chatter():
        while not stop.wait(0.03):
            noise.send(message)

    talking = threading.Thread(target=chatter)
    talking.start()
    time.sleep(0.3)
    began = time.monotonic()
    with pytest.raises(caraml.ZmqTimeoutError, match=r"waiting 0\.3 s"):
        receive(timeout=0.3)
    took = time.monotonic() - began
    stop.set()
    talking.join()
    noise.close(0)
    end.close(0)
    assert 0.25 < took < 0.6


@pytest.mark.timeout(20)
@pytest.mark.parametrize("message", [b"x", numpy.zeros(1 << 20)], ids=["small", "parts"])
def test_a_push_with_timeout_0_does_not_wait_for_a_full_queue(message):
    with caraml.ZmqPusher(address="127.0.0.1:9", serializer="msgpack", hwm=1) as pusher:
        pusher.push(message, timeout=0)
        began = time.monotonic()
        for _ in range(20):
            with pytest.raises(caraml.ZmqTimeoutError):
                pusher.push(message, timeout=0)
        assert time.monotonic() - began < 2, "20 slices take 5 s"
        with pytest.raises(caraml.ZmqTimeoutError):
            pusher.push(message, timeout=0.5)
        assert time.monotonic() - began > 0.4
        pusher.close(0)


def test_close_waits_no_longer_for_a_peer_than_linger():
    pusher = caraml.ZmqPusher(address="127.0.0.1:9")
    pusher.push(b"x")
    began = time.monotonic()
    pusher.close(linger=0.1)
    assert time.monotonic() - began < 0.9


@pytest.mark.timeout(20)
@pytest.mark.parametrize("timeout", [None, 10], ids=["forever", "deadline"])
def test_pull_drops_a_message_of_too_many_parts(timeout):
    with caraml.ZmqPuller(port=0) as puller, zmq.Context() as context, context.socket(zmq.PUSH) as raw:
        raw.linger = 1000
        raw.connect(puller.address)
        raw.send_multipart([b""] * (MAX_PARTS + 1))
        raw.send(b"honest")
        assert puller.pull(timeout) == b"honest"
        assert puller.rejected == 1


def test_slow_handshakes_are_not_mistaken_for_refusals(monkeypatch):
    """Slow handshakes fail one by one at their deadline; those with a wrong key fail three at once."""
    link = socket_monitor.ConnectionState("tcp://127.0.0.1:9", bind=False)
    clock = [100.0]
    monkeypatch.setattr(socket_monitor.time, "monotonic", lambda: clock[0])
    for _ in range(5):
        clock[0] += 1.6
        link.handle(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL, 7)
    assert link.fault is None
    for _ in range(2):
        clock[0] += 0.2
        link.handle(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL, 7)
    assert isinstance(link.fault, caraml.AuthenticationError)
    assert len(link.denied) == 7
