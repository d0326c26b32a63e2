"""R9-R13: malformed messages, strangers and their pickles; each with real processes and a time bound."""

# ruff: noqa: E501

import contextlib
import os
import pickle
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
from tests.caraml.answering import SERVER, client


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


@pytest.mark.thorough
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
    with caraml.ZmqClient(address=address, serializer="pickle", deserializer="pickle", timeout=5) as own:
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
    with (
        caraml.ZmqPuller(address="inproc://r13", deserializer="pickle") as puller,
        caraml.ZmqPusher(address="inproc://r13", serializer="pickle") as pusher,
    ):
        pusher.push({1})
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
        with (
            pytest.warns(RuntimeWarning, match="CARAML_PICKLE_KEY"),
            pytest.raises(caraml.MalformedMessageError, match="not signed"),
        ):
            asking.request(1)
        answering.join(5)
        asking.close(0)
    assert not canary.exists()
