"""R1-R20: what must be survived, each with real processes and a time bound."""

# ruff: noqa: E501

import contextlib
import errno
import os
import pickle
import signal
import socket
import struct
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

import caraml
from caraml.keys import make_keys
from caraml.zmq import topic_frame

SERVER = """
    import sys, time, caraml
    server = caraml.ZmqServer(address=sys.argv[1], deserializer="msgpack", serializer="msgpack")
    print(server.address)
    def answer(request):
        time.sleep(request.get("sleep", 0))
        if "fail" in request:
            raise KeyError(request["fail"])
        return request["x"]
    server.start_loop(answer, blocking=True)
"""


def client(address, **options):
    return caraml.ZmqClient(address=address, serializer="msgpack", deserializer="msgpack", **options)


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError


@pytest.mark.timeout(30)
@pytest.mark.parametrize("timeout", [5.0, -1.0], ids=["deadline", "forever"])
def test_r1_server_killed_mid_request_and_restarted(spawn, timeout):
    server = spawn(SERVER, "127.0.0.1:0")
    address = server.line()
    with client(address, timeout=timeout) as asking:
        assert asking.request({"x": 1}) == 1
        threading.Timer(0.5, server.kill).start()
        started = time.monotonic()
        with pytest.raises(caraml.ZmqTimeoutError, match=address):
            asking.request({"x": 2, "sleep": 60})
        assert time.monotonic() - started < 3  # told of the loss, it does not wait for the deadline
        server.process.wait(5)
        assert spawn(SERVER, address).line() == address
        assert [asking.request({"x": n}, timeout=5) for n in (3, 4)] == [3, 4]


@pytest.mark.timeout(30)
def test_r1_a_late_answer_is_never_taken_for_the_next(spawn):
    address = spawn(SERVER, "127.0.0.1:0").line()
    with client(address) as asking:
        assert asking.request({"x": 0}) == 0
        for n in range(3):
            with pytest.raises(caraml.ZmqTimeoutError):
                asking.request({"x": f"late {n}", "sleep": 0.3}, timeout=0.1)
            assert asking.request({"x": n}, timeout=5) == n


@pytest.mark.timeout(20)
def test_r2_every_blocking_call_has_a_deadline_that_names_the_address(spawn):
    nobody = "tcp://127.0.0.1:9"
    make = [
        lambda: caraml.ZmqClient(address=nobody, timeout=0.3).request(b"x"),
        lambda: caraml.ZmqSender(address=nobody, timeout=0.3).send(b"x"),
        lambda: caraml.ZmqPusher(address=nobody, timeout=0.3, hwm=1).push_many([bytes(1 << 20)] * 4),
        lambda: caraml.ZmqPuller(address=nobody, bind=False).pull(timeout=0.3),
        lambda: caraml.ZmqSub(address=nobody, topic="").recv(timeout=0.3),
        lambda: caraml.ZmqServer(address=nobody, bind=False).recv(timeout=0.3),
        lambda: caraml.ZmqReceiver(address=nobody, bind=False).recv(timeout=0.3),
    ]
    for call in make:
        started = time.monotonic()
        with pytest.raises(caraml.ZmqTimeoutError, match=nobody):
            call()
        assert 0.25 < time.monotonic() - started < 1.0
    with caraml.ZmqPub(port=0) as publisher, pytest.raises(caraml.ZmqTimeoutError, match=publisher.address):
        publisher.wait_subscribers(1, timeout=0.3)


@pytest.mark.timeout(20)
def test_r3_frozen_peer_is_noticed_within_three_heartbeats(spawn):
    server = spawn(SERVER, "127.0.0.1:0")
    with client(server.line(), heartbeat=0.4) as asking:
        assert asking.request({"x": 1}, timeout=5) == 1
        os.kill(server.pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(caraml.PeerLostError):
            asking.request({"x": 2})
        assert time.monotonic() - started < 3 * 0.4


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["puller", "subscriber"])
def test_r3_frozen_peer_is_noticed_by_who_only_receives(spawn, kind):
    """Their `recv` waits on, for the peer may thaw: `socket.link.lost` tells."""
    peer = spawn(
        """
        import sys, time, caraml
        if sys.argv[1] == "puller":
            peer = caraml.ZmqPusher(port=0, bind=True)
        else:
            peer = caraml.ZmqPub(port=0)
        print(peer.address)
        while True:
            peer.push(b"x") if sys.argv[1] == "puller" else peer.pub("t", b"x")
            time.sleep(0.02)
        """,
        kind,
    )
    options = {"address": peer.line(), "bind": False, "heartbeat": 0.4}
    end = caraml.ZmqPuller(**options) if kind == "puller" else caraml.ZmqSub(topic="t", **options)
    receive = end.pull if kind == "puller" else end.recv
    assert receive(timeout=5) == b"x"
    assert end.socket.link.lost == 0
    os.kill(peer.pid, signal.SIGSTOP)
    started = time.monotonic()
    with contextlib.suppress(caraml.ZmqTimeoutError):
        while end.socket.link.lost == 0:
            receive(timeout=0.1 if end.socket.link.lost else 1.3)
    assert end.socket.link.lost == 1
    assert time.monotonic() - started < 3 * 0.4 + 0.6
    os.kill(peer.pid, signal.SIGCONT)
    assert receive(timeout=5) == b"x"  # connected again by itself
    end.close(0)


@pytest.mark.timeout(30)
def test_r4_slow_consumer_with_heartbeats_loses_nothing_and_stays_connected(spawn):
    receiver = spawn("""
        import time, caraml
        receiver = caraml.ZmqReceiver(port=0, heartbeat=0.2, window=20)
        print(receiver.address)
        for count in range(100):
            message = receiver.recv(timeout=10)
            assert int.from_bytes(message[:4], "little") == count, count
            lost = receiver.socket.link.lost
            time.sleep(0.03)
        print(receiver.duplicates, lost)
    """)
    sender = caraml.ZmqSender(address=receiver.line(), heartbeat=0.2, timeout=10)
    for count in range(100):
        sender.send(count.to_bytes(4, "little") + bytes(1 << 16))
    assert sender.close(timeout=10)
    assert sender.socket.link.lost == 0
    assert receiver.line() == "0 0"


@pytest.mark.timeout(40)
@pytest.mark.parametrize("scheme", ["tcp", "ipc"])
def test_r5_close_is_true_only_if_delivered(spawn, scheme, tmp_path):
    address = "tcp://127.0.0.1:0" if scheme == "tcp" else f"ipc://{tmp_path}/r5"
    receiver = spawn(
        """
        import sys, time, caraml
        receiver = caraml.ZmqReceiver(address=sys.argv[1])
        print(receiver.address)
        time.sleep(1)
        for count in range(2000):
            assert receiver.recv(timeout=10) == b"%045d" % count
            if count % 200 == 0:
                time.sleep(0.05)
        receiver.close()
        print("all")
        """,
        address,
    )
    sender = spawn(
        """
        import sys, caraml
        sender = caraml.ZmqSender(address=sys.argv[1])
        for count in range(2000):
            sender.send(b"%045d" % count)
        print(sender.close(timeout=0.2), sender.unacknowledged > 0)
        again = caraml.ZmqSender(address=sys.argv[1])
        """,
        receiver.line(),
    )
    assert sender.line() in ("False True", "True False")
    receiver.kill()
    receiver = spawn(
        """
        import sys, time, caraml
        receiver = caraml.ZmqReceiver(address=sys.argv[1])
        print(receiver.address)
        time.sleep(0.5)
        for count in range(2000):
            assert receiver.recv(timeout=10) == b"%045d" % count
        time.sleep(1)
        print("all")
    """,
        address,
    )
    quick = spawn(
        """
        import sys, caraml
        sender = caraml.ZmqSender(address=sys.argv[1])
        for count in range(2000):
            sender.send(b"%045d" % count)
        print(sender.close(timeout=10))
    """,
        receiver.line(),
    )
    assert quick.line() == "True"
    assert quick.end(3)[0] == 0
    assert receiver.line() == "all"


@pytest.mark.timeout(30)
def test_r6_worker_killed_loses_nothing_in_acknowledged_mode(spawn, tmp_path):
    worker = """
        import os, sys, time, caraml
        receiver = caraml.ZmqReceiver(address=sys.argv[1], bind=False, finish="processed", window=64)
        with open(sys.argv[2], "a", buffering=1) as done:
            while True:
                message = receiver.recv()
                done.write(f"{int(message)} {int(receiver.redelivered)} {receiver.identifier}\\n")
                time.sleep(0.0005)
    """
    sender = caraml.ZmqSender(port=0, bind=True, timeout=20)
    first, second = (spawn(worker, sender.address, tmp_path / name) for name in "ab")
    for count in range(3000):
        sender.send(b"%d" % count)
        if count == 1500:
            first.kill()
    assert sender.close(timeout=20)
    second.kill()
    lines = [line.split() for name in "ab" for line in (tmp_path / name).read_text().splitlines()]
    assert {int(number) for number, _, _ in lines} == set(range(3000))
    assert (tmp_path / "a").stat().st_size
    assert (tmp_path / "b").stat().st_size
    twice = (
        [int(n) for n, _, _ in lines if sum(n == other for other, _, _ in lines) > 1]
        if len(lines) > 3000
        else []
    )
    flagged = {int(number) for number, redelivered, _ in lines if redelivered == "1"}
    assert set(twice) <= flagged
    assert all(int(number) + 1 == int(identifier) for number, _, identifier in lines)


@pytest.mark.timeout(30)
def test_r6_what_a_killed_bound_receiver_had_in_hand_is_given_again_and_says_so(spawn):
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
    assert all(" True " in line for line in lines)  # 0 was finished, but it may not have been said yet
    flushing.join(0.5)
    threading.Thread(target=sender.close, args=(0,)).start()


@pytest.mark.timeout(40)
@pytest.mark.parametrize("policy", ["drop", "latest", "block"])
def test_r7_stopped_subscriber_is_bounded_by_the_budget(spawn, policy):
    subscriber = """
        import sys, caraml
        subscriber = caraml.ZmqSub(address=sys.argv[1], topic="t", policy=sys.argv[2])
        count = 0
        while (message := subscriber.recv())[:4] != b"last":
            count += 1
        print(count, subscriber.missed)
    """
    receive = "latest" if policy == "latest" else "all"
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
            time.sleep(0.001)
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
    if policy == "latest":
        assert count + missed <= 400
        assert count_stopped < 300
    else:
        assert (count, missed) == (sent, 0)  # the healthy one was not affected
        assert count_stopped + missed_stopped == sent
        assert (missed_stopped > 200) == (policy == "drop")
    publisher.close(0)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("nbytes", [40 << 20, 200_000])
def test_r7_a_large_message_does_not_narrow_the_queue_of_small_ones_for_ever(nbytes):
    with (
        caraml.ZmqPub(port=0) as publisher,
        caraml.ZmqSub(address=publisher.address, topic="") as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        wide = publisher.socket.sndhwm
        publisher.pub("params", bytes(nbytes))
        assert publisher.socket.sndhwm < wide / 10
        assert len(subscriber.recv(timeout=10)) == nbytes
        for count in range(5000):
            publisher.pub("loss", b"%016d" % count)
            if count % 100 == 99:
                assert [int(subscriber.recv(timeout=5)) for _ in range(100)][-1] == count
        assert publisher.socket.sndhwm == wide
        assert subscriber.missed == 0


@pytest.mark.timeout(30)
def test_r7_latest_takes_messages_of_any_publisher_and_all_of_its_topics():
    with (
        caraml.ZmqPub(port=0, serializer="msgpack") as publisher,
        caraml.ZmqSub(
            address=publisher.address, topic="a", policy="latest", deserializer="msgpack", timeout=5
        ) as subscriber,
    ):
        subscriber.subscribe("b")  # ZMQ_CONFLATE would keep this subscription only
        publisher.wait_subscribers(2, timeout=5)
        for topic in "aab":
            for value in range(5):  # arrays of 160 KB are frames of their own
                publisher.pub(topic, {"value": value, "array": np.full(20_000, value)})
            time.sleep(0.3)
            newest = subscriber.recv()
            assert (subscriber.topic, newest["value"], newest["array"][-1]) == (topic.encode(), 4, 4)
        with pytest.raises(caraml.ZmqTimeoutError):
            subscriber.recv(timeout=0.1)
        assert (subscriber.missed, subscriber.rejected) == (4, 0)  # of a, after the first one given


@pytest.mark.timeout(20)
def test_r8_slow_joiner_gets_everything_after_wait_subscribers(spawn):
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


def malformed_messages():
    layout = b"\x91\x92\xa1a"  # one array called a, described as:
    wrong = [
        b"\x93\xa3<f4\x91\x03\xa1C",
        b"\x93\xa2|O\x91\x01\xa1C",
        b"\x93\xa3<f4\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1C",
    ]
    arrays = [layout + bytes((0xC4, len(meta))) + meta for meta in wrong]
    yield [b""]
    yield [b"\xca"]
    yield [b"not a message"]
    yield [b"\xca\x01"]
    yield [b"\xca\x01\xc1"]
    yield [b"\xca\x01" + b"\x91" * 5000 + b"\x01"]
    yield [b"\xca\x01" + b"\x91" * 100 + b"\x01"]
    yield [b"\xca\x01\x01", b"a part too many"]
    yield from ([b"\xca\x02" + struct.pack("<I", len(packed)) + packed + b"12345"] for packed in arrays)
    yield [b"\xca\x02\xff\xff\xff\xff"]
    yield [b"x"] * 100_000
    yield [bytes(2 << 20)]


@pytest.mark.timeout(40)
def test_r9_malformed_messages_are_rejected_and_counted(spawn):
    program = spawn("""
        import caraml
        server = caraml.ZmqServer(port=0, deserializer="msgpack", serializer="msgpack",
            limits=caraml.Limits(message_bytes=1 << 20))
        print(server.address)
        thread = server.start_loop(lambda request: (server.rejected, request), blocking=True)
    """)
    address = program.line()
    count = 0
    for message in malformed_messages():
        with zmq.Context() as context, context.socket(zmq.REQ) as attacker:
            attacker.linger, attacker.rcvtimeo, attacker.sndtimeo = (
                0,
                300 if len(message[0]) > 1 << 20 else 5000,
                5000,
            )
            attacker.connect(address)
            attacker.send_multipart(message)
            if len(message[0]) > 1 << 20:  # over MAXMSGSIZE: the connection is cut
                with pytest.raises(zmq.Again):
                    attacker.recv_multipart()
            else:
                assert attacker.recv_multipart()[0] == b"\xca\x05"
                count += 1
    with client(address, timeout=5) as honest:
        assert honest.request({"a": 1}) == (count, {"a": 1})
    assert count >= 13


@pytest.mark.timeout(20)
def test_r9_pullers_and_subscribers_reject_and_go_on():
    with caraml.ZmqPuller(port=0, deserializer="msgpack") as puller, zmq.Context() as context:
        with context.socket(zmq.PUSH) as attacker:
            attacker.linger = 500
            attacker.connect(puller.address)
            bad = [message for message in malformed_messages() if len(message[0]) < 1 << 20]
            for message in bad:
                attacker.send_multipart(message)
            attacker.send_multipart(caraml.encode("honest"))
            assert puller.pull(timeout=10) == "honest"
        assert puller.rejected == len(bad)
        assert isinstance(puller.last_rejection, caraml.MalformedMessageError)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["receiver", "binding sender", "subscriber", "publisher"])
def test_r9_the_other_patterns_reject_and_go_on(kind):
    """5000 parts, one too few, noise, and what only looks like ours: counted, and the honest peer is served."""
    end, attacker_mode = {
        "receiver": (lambda: caraml.ZmqReceiver(port=0, deserializer="msgpack"), zmq.DEALER),
        "binding sender": (lambda: caraml.ZmqSender(port=0, bind=True, timeout=5), zmq.DEALER),
        "subscriber": (
            lambda: caraml.ZmqSub(port=0, bind=True, topic="", deserializer="msgpack", timeout=5),
            zmq.PUB,
        ),
        "publisher": (lambda: caraml.ZmqPub(port=0), zmq.XSUB),
    }[kind]
    with end() as under_test, zmq.Context() as context, context.socket(attacker_mode) as attacker:
        attacker.linger = 500
        attacker.connect(under_test.address)
        got = []
        receiving = threading.Thread(target=lambda: got.append(under_test.recv(timeout=10)))
        if kind == "subscriber":
            receiving.start()  # in `recv` it says what it subscribes to
            time.sleep(0.3)
        bad = [[b"x"] * 5000, [b""], [b"not a message"], [b"\xca\x08", b"two", b"more"], [b"\x07" * 900]]
        for message in bad:
            attacker.send_multipart(message)
        if kind == "subscriber":
            joined = topic_frame.header(b"t", topic_frame.JOINED, 1, 0) + b"\xca\x06" + bytes(4)
            attacker.send(joined)  # no parts at all
            with caraml.ZmqPub(address=under_test.address, bind=False, serializer="msgpack") as honest:
                honest.wait_subscribers(1, timeout=5)
                honest.pub("t", "honest")
                receiving.join(10)
                assert got == ["honest"]
            bad.append([joined])
        elif kind == "receiver":
            with caraml.ZmqSender(address=under_test.address, serializer="msgpack", timeout=5) as honest:
                sending = threading.Thread(target=honest.send, args=("honest",))
                sending.start()
                assert under_test.recv(timeout=10) == "honest"
                sending.join(5)
                with contextlib.suppress(caraml.ZmqTimeoutError):
                    under_test.recv(timeout=0.1)  # finishes the last one
                honest.flush(timeout=5)
        elif kind == "binding sender":
            with caraml.ZmqReceiver(address=under_test.address, bind=False) as honest:
                receiving = threading.Thread(target=honest.recv, args=(5,))
                receiving.start()
                under_test.send(b"honest")
                receiving.join(5)
                under_test.flush(timeout=5)
        else:
            attacker.send(b"\x01t")
            under_test.wait_subscribers(1, timeout=5)
            under_test.pub("t", b"honest")
            assert attacker.recv().endswith(b"honest")
        look = {
            "binding sender": lambda: under_test.flush(timeout=1),
            "publisher": lambda: under_test.subscribers(),
        }.get(kind, lambda: under_test.recv(timeout=0.1))
        deadline = time.monotonic() + 5
        while under_test.rejected < len(bad) and time.monotonic() < deadline:
            with contextlib.suppress(caraml.ZmqTimeoutError):
                look()
        assert under_test.rejected == len(bad)
        assert isinstance(under_test.last_rejection, caraml.MalformedMessageError)


@pytest.mark.timeout(20)
def test_r10_handler_exception_reaches_that_client_and_the_loop_lives(spawn):
    address = spawn(SERVER, "127.0.0.1:0").line()
    with client(address, timeout=5) as asking, client(address, timeout=5) as other:
        with pytest.raises(caraml.RemoteError, match="KeyError: 'this'"):
            asking.request({"fail": "this"})
        assert asking.request({"x": 1}) == other.request({"x": 1}) == 1


@pytest.mark.timeout(30)
def test_r11_raw_tcp_and_zmtp1_peers_deliver_nothing(spawn):
    puller = spawn("""
        import caraml
        puller = caraml.ZmqPuller(port=0)
        print(puller.address)
        count = 0
        try:
            while True:
                message = puller.pull(timeout=3)
                if message != b"honest":
                    count += 1
                else:
                    print(count)
        except caraml.ZmqTimeoutError:
            print(count)
    """)
    address = puller.line()
    port = int(address.rpartition(":")[2])
    generator = np.random.default_rng(1)
    for n in range(30):
        with socket.create_connection(("127.0.0.1", port)) as peer, contextlib.suppress(OSError):
            # ZMTP/1.0: an empty identity, then frames of length, flags, body
            start = b"" if n % 2 else b"\x01\x00"
            peer.sendall(start + b"\x05\x00junk" * 20 + generator.bytes(3000))
    with caraml.ZmqPusher(address=address) as pusher:
        pusher.push(b"honest")
        assert puller.line() == "0"
    assert puller.line() == "0"


@pytest.mark.timeout(40)
@pytest.mark.parametrize("peer", ["allowed", "no key", "unknown key", "wrong server key", "raw tcp"])
def test_r12_only_allowed_keys_deliver_and_both_sides_are_told(spawn, tmp_path, peer):
    make_keys(tmp_path / "ours")
    make_keys(tmp_path / "theirs")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("server.public", "server.secret", "client.public", "client.secret"):
        source = "ours" if (peer == "unknown key") == name.startswith("server") else "theirs"
        (other / name).write_bytes((tmp_path / source / name).read_bytes())
        (other / name).chmod(0o600)
    server = spawn(
        """
        import sys, time, caraml
        puller = caraml.ZmqPuller(port=0, keys=sys.argv[1])
        print(puller.address)
        try:
            print(puller.pull(timeout=2.0))
        except caraml.ZmqTimeoutError as error:
            print(type(error.__cause__).__name__, len(puller.denied) > 0)
        """,
        tmp_path / "ours",
    )
    address = server.line()
    if peer == "raw tcp":
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as raw:
            raw.sendall(b"\x01\x00\x05\x00junk" * 100)
            assert server.line() == "AuthenticationError True"
        return
    keys = {"allowed": tmp_path / "ours", "no key": None}.get(peer, other)
    with caraml.ZmqPusher(address=address, keys=keys) as pusher:
        started = time.monotonic()
        if peer == "allowed":
            pusher.push(b"hello")
            assert server.line() == "b'hello'"
            return
        with pytest.raises(caraml.AuthenticationError, match=address):  # noqa: PT012
            while time.monotonic() - started < 2:
                pusher.push(b"hello")
                time.sleep(0.05)
        pusher.socket.linger = 0
    assert server.line() == "AuthenticationError True"


def stranger(folder, ours):
    """A key folder made with our server's public key and a client nobody allowed."""
    make_keys(folder)
    (folder / "server.public").write_bytes((ours / "server.public").read_bytes())
    return folder


PATTERNS = {
    "request": """
        server = caraml.ZmqServer(port=0, keys=keys)
        print(server.address)
        receive = server.recv
    """,
    "acknowledged": """
        receiver = caraml.ZmqReceiver(port=0, keys=keys)
        print(receiver.address)
        receive = receiver.recv
    """,
    "publish": """
        subscriber = caraml.ZmqSub(port=0, bind=True, topic="", keys=keys)
        print(subscriber.address)
        receive = subscriber.recv
    """,
}


@pytest.mark.timeout(40)
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "unknown key"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_r12_every_pattern_asks_for_the_key(spawn, tmp_path, pattern, allowed):
    make_keys(tmp_path / "ours")
    keys = tmp_path / "ours" if allowed else stranger(tmp_path / "theirs", tmp_path / "ours")
    source = "import sys, caraml\nkeys = sys.argv[1]\n" + textwrap.dedent(PATTERNS[pattern])
    server = spawn(
        source
        + textwrap.dedent("""
            try:
                print(receive(timeout=2.0))
            except caraml.ZmqTimeoutError as error:
                print(type(error.__cause__).__name__)
        """),
        tmp_path / "ours",
    )
    options = {"address": server.line(), "keys": keys}
    made, give = {
        "request": lambda: ((end := caraml.ZmqClient(**options)), lambda: end.request(b"hello", timeout=2)),
        "acknowledged": lambda: (
            (end := caraml.ZmqSender(timeout=2, **options)),
            lambda: (end.send(b"hello"), end.flush(timeout=2)),
        ),
        "publish": lambda: ((end := caraml.ZmqPub(bind=False, **options)), lambda: end.pub("", b"hello")),
    }[pattern]()
    started = time.monotonic()
    outcome = []
    while time.monotonic() - started < 1.5 and not outcome:
        try:
            if pattern == "publish" and allowed:
                made.wait_subscribers(1, timeout=5)
            give()
            outcome = ["given"] if allowed or pattern != "publish" else []
        except caraml.AuthenticationError:
            outcome = ["refused"]
        except caraml.ZmqTimeoutError:  # of a request that nobody answers here
            outcome = ["given"]
        time.sleep(0.02)
    assert server.line() == ("b'hello'" if allowed else "AuthenticationError")
    assert outcome == ["given" if allowed else "refused"]
    made.close(0)


@pytest.mark.timeout(20)
def test_r12_a_peer_that_says_nothing_is_told_of_within_two_seconds(tmp_path):
    make_keys(tmp_path)
    with caraml.ZmqPuller(port=0, keys=tmp_path) as puller:
        with socket.create_connection(("127.0.0.1", puller.socket.port)):
            with pytest.raises(caraml.ZmqTimeoutError) as told:
                puller.pull(timeout=2.0)
            assert isinstance(told.value.__cause__, caraml.AuthenticationError)
        with caraml.ZmqPusher(address=puller.address, keys=tmp_path) as pusher:
            pusher.push(b"honest")
            assert puller.pull(timeout=5) == b"honest"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("spoil", ["writable list", "writable folder", "not text"])
def test_r12_a_list_that_others_may_write_lets_nobody_in_and_a_mended_one_does(tmp_path, spoil):
    make_keys(tmp_path)
    allowed = tmp_path / "allowed"
    content = allowed.read_bytes()

    def break_it():
        if spoil == "not text":
            allowed.write_bytes(b"\xff\xfe\n")
        else:
            (allowed if spoil == "writable list" else tmp_path).chmod(0o777)

    with caraml.ZmqPuller(port=0, keys=tmp_path) as puller:
        break_it()
        with caraml.ZmqPusher(address=puller.address, keys=tmp_path) as pusher:
            with pytest.raises(caraml.AuthenticationError):  # noqa: PT012
                while True:
                    pusher.push(b"before", timeout=2)
                    time.sleep(0.02)
            pusher.socket.linger = 0
        if spoil != "not text":
            with pytest.raises(caraml.KeyFileError, match="others"):
                caraml.ZmqPuller(port=0, keys=tmp_path)
        allowed.chmod(0o600)
        tmp_path.chmod(0o700)
        allowed.write_bytes(content)
        with caraml.ZmqPusher(address=puller.address, keys=tmp_path) as pusher:
            pusher.push(b"after")
            assert puller.pull(timeout=5) == b"after"


@pytest.mark.timeout(20)
def test_r12_a_context_with_an_authenticator_of_its_own_is_refused(tmp_path):
    make_keys(tmp_path)
    with zmq.Context() as context, context.socket(zmq.REP) as authenticator:
        authenticator.bind("inproc://zeromq.zap.01")
        for _ in range(2):
            with pytest.raises(caraml.SocketError, match="authenticator"):
                caraml.ZmqPuller(port=0, keys=tmp_path, context=context)


class Canary:
    """Unpickled, it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


@pytest.mark.timeout(30)
def test_r13_pickles_of_strangers_are_never_loaded(spawn, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    canary = tmp_path / "canary"
    server = spawn("""
        import caraml
        server = caraml.ZmqServer(host="127.0.0.1", port=0, serializer="pickle", deserializer="pickle")
        print(server.address)
        server.start_loop(lambda request: request, blocking=True)
    """)
    address = server.line()
    stream = pickle.dumps(Canary(canary))
    with zmq.Context() as context:
        for message in (stream, b"\xca\x04\x00" + stream, b"\xca\x04\x20" + bytes(32) + stream):
            with context.socket(zmq.REQ) as attacker:
                attacker.linger, attacker.rcvtimeo = 0, 5000
                attacker.connect(address)
                attacker.send(message)
                assert attacker.recv_multipart()[0] == b"\xca\x05"
    assert not canary.exists()
    own = caraml.ZmqClient(address=address, serializer="pickle", deserializer="pickle", timeout=5)
    assert own.request({"a": {1, 2}}) == {"a": {1, 2}}  # signed with this user's key
    own.request(Canary(canary))
    assert canary.exists()  # the canary sings when it is let
    assert (tmp_path / "state/caraml/pickle.key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(caraml.PickleRefusedError, match="msgpack"):
        caraml.ZmqPuller(port=0, deserializer="pickle")
    with pytest.raises(caraml.PickleRefusedError, match="@r13"):
        caraml.ZmqPuller(address=f"ipc://@r13-{os.getpid()}", deserializer="pickle")
    address = f"ipc://{tmp_path}/r13"
    with (
        caraml.ZmqPuller(address=address, deserializer="pickle") as puller,
        caraml.ZmqPusher(address=address, serializer="pickle") as pusher,
    ):
        pusher.push({2})
        assert puller.pull(timeout=5) == {2}
    with caraml.ZmqPuller(address="inproc://r13", deserializer="pickle") as puller:
        caraml.ZmqPusher(address="inproc://r13", serializer="pickle").push({1})
        assert puller.pull(timeout=5) == {1}


@pytest.mark.timeout(20)
def test_r13_who_took_an_ipc_path_first_runs_nothing_in_its_connectors(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    canary = tmp_path / "canary"
    with zmq.Context() as context, context.socket(zmq.REP) as stranger:
        stranger.linger, stranger.rcvtimeo = 0, 5000
        stranger.bind(f"ipc://{tmp_path}/taken")
        address = f"ipc://{tmp_path}/taken"
        asking = caraml.ZmqClient(address=address, serializer="pickle", deserializer="pickle", timeout=5)

        def answer():
            stranger.recv()
            stranger.send(b"\xca\x04\x00" + pickle.dumps(Canary(canary)))

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(caraml.MalformedMessageError, match="not signed"):
            asking.request(1)
        answering.join(5)
        asking.close(0)
    assert not canary.exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("receive", ["pull", "recv"])
def test_waiting_without_a_deadline_costs_nothing_after_one_with(receive):
    with caraml.ZmqPub(address="inproc://idle") as publisher, caraml.ZmqPuller(port=0) as puller:
        subscriber = caraml.ZmqSub(address="inproc://idle", topic="")
        publisher.wait_subscribers(1, timeout=5)
        publisher.pub("t", b"first")
        assert subscriber.recv() == b"first"
        waiting = puller.pull if receive == "pull" else subscriber.recv
        with pytest.raises(caraml.ZmqTimeoutError):
            waiting(timeout=0)
        got = []
        thread = threading.Thread(target=lambda: got.append(waiting()))
        before = time.process_time()
        thread.start()
        time.sleep(1)
        assert time.process_time() - before < 0.3
        publisher.pub("t", b"x")
        with caraml.ZmqPusher(address=puller.address) as pusher:
            pusher.push(b"x")
            thread.join(5)
        assert got == [b"x"]
        subscriber.close()


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
@pytest.mark.parametrize("what", EXITS)
def test_r14_the_interpreter_exits_within_two_seconds_with_its_code(spawn, what):
    program = spawn(
        "import sys, time, threading, zmq, caraml\n"
        "puller = caraml.ZmqPuller(port=0)\n" + EXITS[what] + "\nprint(1, flush=True)\nsys.exit(7)\n"
    )
    program.line()
    code, _, errors = program.end(2.5)
    assert code == 7, errors
    assert errors == ""


@pytest.mark.timeout(30)
def test_r14_one_that_fails_and_one_with_a_dead_receiver_take_no_time_from_the_others(spawn):
    """Eight senders: seven of receivers that do not read, one of one that does: its message arrives."""
    program = spawn("""
        import logging, threading, time, caraml
        from caraml import process
        logging.basicConfig(format="%(message)s")
        class Broken:
            def at_exit(self, stage):
                raise OSError("broken")
            def in_use(self):
                return False
        broken = Broken()
        process.close_at_exit(broken)
        kept = []
        for n in range(8):
            receiver = caraml.ZmqReceiver(port=0)
            sender = caraml.ZmqSender(address=receiver.address)
            thread = threading.Thread(target=receiver.recv)
            thread.start()
            sender.send(b"first")
            thread.join()
            sender.send(b"second")
            kept.append((receiver, sender))
        def slowly():
            time.sleep(0.3)
            process.closing = lambda: False  # as a receiver in another process, which does not end
            receiver.recv(timeout=2)
            receiver._acknowledge()
        threading.Thread(target=slowly, daemon=True).start()
        print(kept[-1][1].address)
        began = time.monotonic()
    """)
    last = program.line()
    code, _, errors = program.end(2.5)
    assert code == 0
    assert "broken" in errors
    lost = [line for line in errors.splitlines() if "unacknowledged" in line]
    assert len(lost) == 7
    assert not any(last in line for line in lost)


@pytest.mark.timeout(30)
def test_r15_a_forked_child_is_told_and_the_parent_unharmed(spawn):
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


def in_child(call):
    """The exit code of a forked child: 0 where `call` raised ForkedError."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
        except caraml.ForkedError:
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.timeout(30)
def test_r15_what_a_subscriber_fetched_before_the_fork_is_the_parents():
    with (
        caraml.ZmqPub(address="inproc://fork", hwm=0) as publisher,
        caraml.ZmqSub(address="inproc://fork", topic="t") as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        for n in range(20):
            publisher.pub("t", b"%d" % n)
        assert subscriber.recv() == b"0"
        assert subscriber.pending > 0
        assert in_child(subscriber.recv) == 0
        assert in_child(lambda: subscriber.subscribe("u")) == 0
        assert in_child(lambda: publisher.wait_subscribers(1, timeout=1)) == 0
        assert [subscriber.recv() for _ in range(19)] == [b"%d" % n for n in range(1, 20)]


@pytest.mark.timeout(30)
def test_r15_what_is_left_of_a_batch_at_the_fork_is_the_parents():
    with (
        caraml.ZmqPuller(address="inproc://fork-batch") as puller,
        caraml.ZmqPusher(address="inproc://fork-batch") as pusher,
    ):
        pusher.push_many([b"0", b"1", b"2"])
        assert puller.pull() == b"0"
        assert in_child(puller.pull) == 0
        assert [puller.pull(), puller.pull()] == [b"1", b"2"]


@pytest.mark.timeout(30)
def test_r15_a_fork_while_another_thread_makes_sockets(spawn):
    program = spawn("""
        import os, caraml
        from caraml import process
        process._lock.acquire()  # as if another thread were making a context just now
        child = os.fork()
        if child == 0:
            caraml.ZmqPuller(port=0)
            os._exit(0)
        process._lock.release()
        print(os.waitpid(child, 0)[1])
    """)
    assert program.line() == "0"


@pytest.mark.timeout(20)
def test_r16_subscriptions_change_in_the_thread_that_receives():
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


@pytest.mark.timeout(30)
def test_r16_threads_at_once_are_refused_and_never_crash(spawn):
    program = spawn("""
        import threading, caraml
        puller = caraml.ZmqPuller(port=0)
        pusher = caraml.ZmqPusher(address=puller.address)
        outcomes = {"sent": 0, "refused": 0}
        lock = threading.Lock()
        def work():
            for _ in range(20000):
                try:
                    pusher.push(b"x" * 16)
                    outcome = "sent"
                except caraml.ConcurrentUseError:
                    outcome = "refused"
                with lock:
                    outcomes[outcome] += 1
        threads = [threading.Thread(target=work) for _ in range(4)]
        reading = threading.Thread(target=lambda: [puller.pull(timeout=0.5) for _ in range(10**9)], daemon=True)
        threading.excepthook = lambda *_: None
        reading.start()
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        reading.join(5)
        print(sum(outcomes.values()))
        blocked = threading.Thread(target=lambda: puller.pull(timeout=2), daemon=True)
        blocked.start()
        import time; time.sleep(0.2)
        try:
            puller.pull()
        except caraml.ConcurrentUseError as error:
            print("refused")
    """)
    assert program.line() == "80000"
    assert program.line() == "refused"
    assert program.end(10)[0] == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("nbytes", [100, 100_000, 4 << 20])
def test_r17_an_array_may_change_after_send(nbytes):
    with caraml.ZmqPuller(port=0, deserializer="msgpack") as puller:
        pusher = caraml.ZmqPusher(address=puller.address, serializer="msgpack")
        array = np.zeros(nbytes, np.uint8)
        for n in range(5):
            array[:] = n
            pusher.push({"a": array})
            array[:] = 255
        assert [int(puller.pull(timeout=5)["a"].max()) for _ in range(5)] == [0, 1, 2, 3, 4]
        sent = pusher.push_uncopied({"a": array, "b": np.ones(nbytes)})
        sent.wait(timeout=5)
        assert sent.done
        array[:] = 1
        assert puller.pull(timeout=5)["a"].max() == 255


@pytest.mark.timeout(20)
def test_r17_uncopied_without_a_peer_is_not_done():
    with caraml.ZmqPusher(address="127.0.0.1:9", serializer="msgpack") as pusher:
        sent = pusher.push_uncopied({"a": np.zeros(1 << 20)})
        assert not sent.done
        with pytest.raises(caraml.ZmqTimeoutError):
            sent.wait(timeout=0.2)
        pusher.close(0)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", ["worker killed", "no memory"])
def test_r18_fetcher_survives_a_killed_worker_and_full_memory(spawn, case):
    before = sorted(path.name for path in Path("/dev/shm").iterdir())
    program = spawn(
        """
        import os, resource, signal, sys, time, numpy, caraml
        server = caraml.ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
        def answer(request):
            time.sleep(0.01)
            return numpy.full(1 << 17, request)
        server.start_loop(answer)
        if sys.argv[1] == "no memory":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        got = []
        def handle(request, shared):
            assert (shared.data == request).all()
            got.append(request)
            shared.delete()
            # One that had nothing in hand shows nothing: then another is killed.
            if len(got) in (5, 15) and not fetcher.refetched and sys.argv[1] == "worker killed":
                os.kill(next(iter(fetcher._workers.values())).pid, signal.SIGKILL)
        fetcher = caraml.DataFetcher(handle, "127.0.0.1", server.socket.port, range(60), worker_comm_port=None)
        fetcher.start()
        fetcher.join(30)
        print(sorted(got) == list(range(60)), fetcher.refetched, fetcher.is_alive())
        """,
        case,
    )
    whole, refetched, alive = program.line().split()
    assert (whole, alive) == ("True", "False")
    assert (int(refetched) > 0) == (case == "worker killed")
    assert program.end(5)[0] == 0
    assert sorted(path.name for path in Path("/dev/shm").iterdir()) == before


@pytest.mark.timeout(20)
def test_r19_a_second_bind_of_an_ipc_path_raises_and_a_stale_one_does_not(spawn, tmp_path):
    address = f"ipc://{tmp_path}/socket"
    first = spawn(
        """
        import sys, time, caraml
        puller = caraml.ZmqPuller(address=sys.argv[1])
        print("bound")
        print(puller.pull())
        time.sleep(30)
        """,
        address,
    )
    assert first.line() == "bound"
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    with pytest.raises(caraml.AddressInUseError, match="socket") as caught:
        caraml.ZmqPuller(address=address)
    assert caught.value.errno == errno.EADDRINUSE
    with caraml.ZmqPusher(address=address) as pusher:
        pusher.push(b"still there")
        assert first.line() == "b'still there'"
    first.kill()
    assert (tmp_path / "socket").exists()
    caraml.ZmqPuller(address=address).close()
    deadline = time.monotonic() + 2  # ZeroMQ closes in the background
    while (tmp_path / "socket").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not (tmp_path / "socket").exists()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("nbytes", [24, 200, 5000, 9000, 70_000, 1 << 20])
def test_r20_received_arrays_are_aligned_writable_and_hold_no_more_than_themselves(nbytes):
    with caraml.ZmqPuller(port=0, deserializer="msgpack") as puller:
        pusher = caraml.ZmqPusher(address=puller.address, serializer="msgpack")
        for value in ({"n": np.zeros(3, np.uint8), "a": np.zeros(nbytes // 8)}, ["x", np.zeros(nbytes // 8)]):
            pusher.push(value)
            got = puller.pull(timeout=5)
            array = got["a"] if isinstance(got, dict) else got[1]
            assert array.flags.aligned
            assert array.flags.writeable
            array[0] = 1
            base = array
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            assert (base.nbytes if isinstance(base, (np.ndarray, memoryview)) else len(base)) <= nbytes


@pytest.mark.timeout(20)
def test_subscriber_gives_what_it_fetched_at_once_in_order_with_its_topic():
    large = bytes(1 << 19)
    published = [("t", b"%d" % n) for n in range(100)]
    published += [("tu", b"other"), ("t", b"after"), ("t", large), ("t", b""), ("tv", large), ("t", b"z")]
    with (
        caraml.ZmqPub(port=0, hwm=0) as publisher,
        caraml.ZmqSub(address=publisher.address, topic="t") as subscriber,
    ):
        publisher.wait_subscribers(1, timeout=5)
        for topic, message in published:
            publisher.pub(topic, message)
        for index, (topic, message) in enumerate(published):
            received = subscriber.recv(timeout=5) if index % 7 == 3 else subscriber.recv()
            assert (subscriber.topic, received) == (topic.encode(), message)
        assert (subscriber.missed, subscriber.rejected, subscriber.pending) == (0, 0, 0)
        for topic, message in published[:50]:
            publisher.pub(topic, message)
        time.sleep(0.2)
        assert subscriber.recv() == b"0"
        assert 0 < subscriber.pending < 50
        subscriber.unsubscribe("t")
        with pytest.raises(caraml.ZmqTimeoutError):
            subscriber.recv(timeout=0.2)
