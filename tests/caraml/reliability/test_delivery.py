"""Which messages are delivered, lost or reported as lost, with real processes and deadlines."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import caraml


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError


@pytest.mark.timeout(40)
@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
def test_close_returns_true_only_if_all_messages_were_delivered(spawn, tmp_path, scheme):
    receiver = spawn(
        """
        import sys, time, caraml
        receiver = caraml.ZmqReceiver(address=sys.argv[1])
        print(receiver.address)
        time.sleep(1)
        for count in range(2000):
            assert receiver.recv(timeout=10) == b"%045d" % count
        receiver.close()
        print("all")
        """,
        f"ipc://{tmp_path}/s" if scheme == "ipc" else "127.0.0.1:0",
    )
    sender = spawn(
        """
        import sys, caraml
        sender = caraml.ZmqSender(address=sys.argv[1])
        for count in range(2000):
            sender.send(b"%045d" % count)
        print(sender.close(timeout=10))
        """,
        receiver.line(),
    )
    assert sender.line() == "True"
    assert sender.end(3)[0] == 0
    assert receiver.line() == "all"
    with caraml.ZmqReceiver(port=0, window=10) as silent:
        late = caraml.ZmqSender(address=silent.address)
        receiving = threading.Thread(target=silent.recv, args=(5,))
        receiving.start()
        late.send(b"first")
        receiving.join(5)
        late.send(b"second")
        assert not late.close(timeout=0.2)


@pytest.mark.timeout(30)
def test_unfinished_messages_of_a_killed_receiver_are_redelivered_and_marked(spawn):
    program = """
        import sys, time, caraml
        receiver = caraml.ZmqReceiver(address=sys.argv[1], finish="processed")
        print(receiver.address)
        while True:
            message = receiver.recv(timeout=20)
            print(message.decode(), receiver.redelivered, receiver.identifier)
            if sys.argv[2] == "dies" and message == b"1":
                time.sleep(60)
    """
    receiver = spawn(program, "127.0.0.1:0", "dies")
    address = receiver.line()
    sender = caraml.ZmqSender(address=address, timeout=10)
    for count in range(3):
        sender.send(b"%d" % count)
    assert [receiver.line() for _ in range(2)] == ["0 False 1", "1 False 2"]
    receiver.kill()
    again = spawn(program, address, "lives")
    assert again.line() == address
    flushing = threading.Thread(target=sender.flush, args=(10,))
    flushing.start()
    lines = [again.line()]
    while not lines[-1].startswith("2 "):
        lines.append(again.line())
    assert lines[-2:] == ["1 True 2", "2 True 3"]
    assert all(" True " in line for line in lines)  # 0 too: it may not be acknowledged yet
    flushing.join(0.5)
    # It may wait for the flush that is still under way.
    threading.Thread(target=sender.close, args=(0,)).start()


@pytest.mark.timeout(40)
@pytest.mark.parametrize(
    ("policy", "receive"),
    [pytest.param("drop", "all", marks=pytest.mark.thorough), ("drop", "latest"), ("block", "all")],
)
def test_messages_for_a_stopped_subscriber_are_bounded(spawn, policy, receive):
    subscriber = """
        import sys, caraml
        subscriber = caraml.ZmqSub(address=sys.argv[1], topic="t", policy=sys.argv[2])
        count = 0
        while (message := subscriber.recv())[:4] != b"last":
            count += 1
        print(count, subscriber.missed)
    """
    publisher = caraml.ZmqPub(port=0, policy=policy, budget_bytes=8 << 20, timeout=0.5)
    healthy, stopped = (spawn(subscriber, publisher.address, receive) for _ in range(2))
    publisher.wait_subscribers(2, timeout=10)
    os.kill(stopped.pid, signal.SIGSTOP)
    before = resident(os.getpid())
    message = bytes(1 << 18)
    sent, blocked = 0, ""
    try:
        for _ in range(400):
            publisher.pub("t", message)
            sent += 1
            time.sleep(0.004)
    except caraml.ZmqTimeoutError as error:
        blocked = str(error)
    # the budget, and what ZeroMQ and malloc keep
    assert resident(os.getpid()) - before < (8 << 20) + (24 << 20)
    assert (sent < 400) == (policy == "block")
    assert (publisher.address in blocked) == (policy == "block")
    os.kill(stopped.pid, signal.SIGCONT)
    if policy != "block":
        time.sleep(1)  # let it take in what was kept for it
    publisher.pub("t", b"last", timeout=10)
    (count, missed), (count_stopped, missed_stopped) = (
        map(int, p.line().split()) for p in (healthy, stopped)
    )
    if receive == "latest":
        assert count + missed <= 400
        assert count_stopped < 300
    else:
        assert (count, missed) == (sent, 0)  # the healthy one was not affected
        assert count_stopped + missed_stopped == sent
        assert (missed_stopped > 200) == (policy == "drop")
    publisher.close(0)


@pytest.mark.timeout(30)
def test_policy_latest_keeps_only_the_newest_message_with_two_subscriptions():
    with (
        caraml.ZmqPub(port=0, serializer="msgpack") as publisher,
        caraml.ZmqSub(
            address=publisher.address, topic="a", policy="latest", deserializer="msgpack", timeout=5
        ) as subscriber,
    ):
        subscriber.subscribe("b")  # ZMQ_CONFLATE would keep this subscription only
        publisher.wait_subscribers(2, timeout=5)  # its two subscriptions
        for topic in "aab":
            for value in range(5):  # arrays of 160 KB are frames of their own
                publisher.pub(topic, {"value": value, "array": np.full(20_000, value)})
            time.sleep(0.3)
            newest = subscriber.recv()
            assert (subscriber.topic, newest["value"], newest["array"][-1]) == (topic.encode(), 4, 4)
        with pytest.raises(caraml.ZmqTimeoutError):
            subscriber.recv(timeout=0.1)
        assert (subscriber.missed, subscriber.rejected) == (4, 0)  # those of a, after its first received


@pytest.mark.timeout(20)
def test_a_subscriber_gets_every_message_after_wait_subscribers(spawn):
    publisher = caraml.ZmqPub(port=0)
    subscriber = spawn(
        """
        import sys, time, caraml
        time.sleep(0.3)
        subscriber = caraml.ZmqSub(address=sys.argv[1], topic="t")
        print(sum(subscriber.recv(timeout=5) == b"%d" % n for n in range(500)))
        """,
        publisher.address,
    )
    publisher.wait_subscribers(1, timeout=10)
    assert publisher.subscribers("topic") == 1
    assert publisher.subscribers("other") == 0
    for n in range(500):
        publisher.pub("t", b"%d" % n)
    assert subscriber.line() == "500"
    publisher.close()
