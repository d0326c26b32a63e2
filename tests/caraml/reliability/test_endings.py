"""Exits, forks and threads; each with real processes and a time bound."""

# ruff: noqa: E501

import contextlib
import os
import threading
import time

import pytest

import caraml
from tests.caraml.reliability.answering import SERVER, client

EXITS = {
    "unsent data": "pusher = caraml.ZmqPusher(address='127.0.0.1:9'); [pusher.push(bytes(1000)) for _ in range(100)]",
    "unsent request": """
client = caraml.ZmqClient(address='127.0.0.1:9')
try:
    client.request(b'', timeout=0.1)
except caraml.ZmqTimeoutError:
    pass
""",
    "unacknowledged": """
receivers = [caraml.ZmqReceiver(port=0) for _ in range(4)]
senders = [caraml.ZmqSender(address=receiver.address) for receiver in receivers]
for receiver, sender in zip(receivers, senders):
    thread = threading.Thread(target=receiver.recv)
    thread.start()
    sender.send(b'taken')
    thread.join()
    sender.send(b'never acknowledged')
""",
    "many loops": "servers = [caraml.ZmqServer(port=0) for _ in range(20)]; [s.start_loop(lambda x: x) for s in servers]",
    "running loop": "server = caraml.ZmqServer(port=0); server.start_loop(lambda x: x)",
    "thread in recv": "threading.Thread(target=caraml.ZmqPuller(port=0).pull, daemon=True).start(); time.sleep(0.2)",
    "open monitor": "s = caraml.ZmqSocket(address='127.0.0.1:9', socket_mode='PUSH', bind=False).establish(); "
    "m = zmq.Context.instance().socket(zmq.PULL).get_monitor_socket()",
    "proxy": "p = caraml.ZmqProxyThread('tcp://127.0.0.1:*', 'tcp://127.0.0.1:*'); p.start(); p.wait_bound(2)",
    "proxy process": "caraml.ZmqProxyProcess('tcp://127.0.0.1:*', 'tcp://127.0.0.1:*').start(); time.sleep(0.2)",
    "fetcher": "caraml.DataFetcher(print, '127.0.0.1', 9, range(5)).start(); time.sleep(0.2)",
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("state", EXITS)
def test_the_interpreter_exits_within_two_seconds_with_its_exit_code(spawn, state):
    program = spawn(
        "import sys, time, threading, zmq, caraml\n"
        "puller = caraml.ZmqPuller(port=0)\n" + EXITS[state] + "\nprint(1, flush=True)\nsys.exit(7)\n"
    )
    program.line()
    code, _, errors = program.end(2.5)
    assert code == 7, errors
    assert "Traceback" not in errors, errors


@pytest.mark.timeout(30)
def test_using_a_socket_in_a_forked_child_raises_and_the_parent_works_on(spawn):
    address = spawn(SERVER, "127.0.0.1:0").line()
    with client(address, timeout=5) as asking:
        assert asking.request({"x": 1}) == 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asking.request({"x": 2})
            except caraml.ForkedError:
                with client(address, timeout=5) as own:  # a fresh context in the child
                    code = 0 if own.request({"x": 3}) == 3 else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert asking.request({"x": 4}) == 4


@pytest.mark.timeout(30)
def test_messages_prefetched_before_a_fork_stay_with_the_parent():
    with (
        caraml.ZmqPub(address="inproc://fork", hwm=0) as publisher,
        caraml.ZmqSub(address="inproc://fork", topic="t") as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        for n in range(20):
            publisher.pub("t", b"%d" % n)
        assert subscriber.recv() == b"0"
        assert subscriber.pending > 0
        child = os.fork()
        if child == 0:
            code = 1
            try:
                subscriber.recv()
            except caraml.ForkedError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert [subscriber.recv() for _ in range(19)] == [b"%d" % n for n in range(1, 20)]


@pytest.mark.timeout(20)
def test_subscribe_from_another_thread_raises_while_recv_waits_and_works_with_a_loop():
    with (
        caraml.ZmqPub(address="inproc://r16") as publisher,
        caraml.ZmqSub(address="inproc://r16", topic="a") as subscriber,
    ):

        def wait():
            with contextlib.suppress(caraml.ZmqTimeoutError):
                subscriber.recv(0.5)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        with pytest.raises(caraml.ConcurrentUseError):
            subscriber.subscribe("b")
        waiting.join(5)
        got = []
        subscriber.start_loop(got.append)
        for topic in "bcd":
            subscriber.subscribe(topic)  # the loop's thread does it
        subscriber.unsubscribe("a")
        subscriber.unsubscribe("d")
        deadline = time.monotonic() + 5
        while publisher.subscribers() != 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        for topic in "abcd":
            publisher.pub(topic, topic.encode())
        while len(got) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert got == [b"b", b"c"]
