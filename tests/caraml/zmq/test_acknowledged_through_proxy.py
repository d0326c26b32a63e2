"""Acknowledged delivery through a ROUTER-DEALER proxy to several receivers, also if one is killed."""

import signal
import threading

import numpy as np
import pytest

import caraml
from tests.sandbox import wait_for

RECEIVER = """
    import sys, time, caraml
    receiver = caraml.ZmqReceiver(address=sys.argv[1], bind=False, deserializer="msgpack", finish=sys.argv[2])
    print("up")
    given = 0
    while True:
        message = receiver.recv()
        print(message["n"], receiver.identifier, int(receiver.redelivered), flush=True)
        given += 1
        if sys.argv[3:] and given == int(sys.argv[3]):
            print("stuck", flush=True)
            time.sleep(60)
"""


@pytest.fixture
def proxy():
    thread = caraml.ZmqProxyThread("tcp://127.0.0.1:*", "tcp://127.0.0.1:*")
    thread.start()
    thread.wait_bound(5)
    yield thread
    thread.stop()
    thread.join(5)


def lines_of(program, into):
    def read():
        for line in program.process.stdout:
            into.append(line.strip())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def numbers(got):
    return {int(line.split()[0]) for lines in got for line in list(lines) if line[:1].isdigit()}


@pytest.mark.timeout(60)
def test_messages_reach_receivers_behind_a_proxy_and_are_acknowledged(proxy, spawn):
    receivers = [spawn(RECEIVER, proxy.out_add, "received") for _ in range(2)]
    assert [receiver.line() for receiver in receivers] == ["up"] * 2
    got = [[] for _ in receivers]
    for receiver, lines in zip(receivers, got, strict=True):
        lines_of(receiver, lines)
    sizes = [10, 100_000, 1 << 20]  # within the frame, a part of its own, and a large one
    with caraml.ZmqSender(address=proxy.in_add, serializer="msgpack", timeout=30) as sender:
        for n in range(300):
            sender.send({"n": n, "data": np.zeros(sizes[n % 3 if n < 30 else 0], np.uint8)})
        sender.flush(timeout=30)
        assert sender.unacknowledged == 0
    # They are printed a moment after they are acknowledged.
    wait_for(lambda: len(numbers(got)) == 300, 10, "all are printed")
    assert sorted(int(line.split()[0]) for lines in got for line in lines) == list(range(300))


@pytest.mark.timeout(90)
@pytest.mark.parametrize(("count", "finish"), [(1, "processed"), (2, "received")])
def test_no_message_is_lost_when_a_receiver_behind_a_proxy_is_killed(proxy, spawn, count, finish):
    """It was processing one message and had fetched others; if it was the only one, a new one starts."""
    doomed = spawn(RECEIVER, proxy.out_add, finish, 5)
    others = [spawn(RECEIVER, proxy.out_add, finish) for _ in range(count - 1)]
    assert [receiver.line() for receiver in [doomed, *others]] == ["up"] * count
    got = [[] for _ in range(count + 1)]
    for receiver, lines in zip([doomed, *others], got, strict=False):
        lines_of(receiver, lines)
    with caraml.ZmqSender(address=proxy.in_add, serializer="msgpack", timeout=60, resend_after=1.0) as sender:
        killed = False
        for n in range(300):
            sender.send({"n": n})
            if not killed and n > 200:
                wait_for(lambda: "stuck" in got[0], 30, "it is stuck")
                doomed.kill(signal.SIGKILL)
                killed = True
                if count == 1:
                    substitute = spawn(RECEIVER, proxy.out_add, finish)
                    lines_of(substitute, got[1])
        sender.flush(timeout=60)
    in_hand = {int(got[0][4].split()[0])} if finish == "processed" else set()
    before = numbers(got[:1]) - in_hand
    wait_for(lambda: numbers(got[1:]) | before == set(range(300)), 10, "all are printed")
    again = [line.split() for lines in got[1:] for line in lines if line[:1].isdigit()]
    assert all(flag == "1" for n, _, flag in again if int(n) in before | in_hand)  # flag 1: redelivered


@pytest.mark.timeout(30)
def test_a_resent_message_is_delivered_once(proxy):
    """A receiver slower than `resend_after` gets messages again."""
    given = []
    with caraml.ZmqReceiver(address=proxy.out_add, bind=False) as receiver:
        sender = caraml.ZmqSender(address=proxy.in_add, timeout=20, resend_after=0.1)
        sending = threading.Thread(
            target=lambda: ([sender.send(b"%d" % n) for n in range(20)], sender.flush(20))
        )
        sending.start()
        pause = threading.Event()
        for _ in range(20):
            given.append(receiver.recv(timeout=10))
            pause.wait(0.03)
        with pytest.raises(caraml.ZmqTimeoutError):
            receiver.recv(timeout=1)
        sending.join(20)
        assert sender.close(5)
        assert given == [b"%d" % n for n in range(20)]
