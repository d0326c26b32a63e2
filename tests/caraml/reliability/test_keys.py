"""CURVE keys: only allowed peers can send, and both sides report a refusal."""

import socket
import time

import pytest
import zmq

import caraml
from caraml.keys import make_keys


@pytest.mark.timeout(40)
@pytest.mark.parametrize("peer", ["allowed", "no key", "unknown key", "wrong server key", "raw tcp"])
def test_only_allowed_keys_can_send_and_both_sides_report_a_refusal(spawn, tmp_path, peer):
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
        deadline = time.monotonic() + 20
        while True:
            try:
                print(puller.pull(timeout=0.5))
                break
            except caraml.ZmqTimeoutError as error:
                if error.__cause__ or time.monotonic() > deadline:
                    print(type(error.__cause__).__name__, len(puller.denied) > 0)
                    break
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
            while time.monotonic() - started < 20:
                pusher.push(b"hello")
                time.sleep(0.05)
        pusher.socket.linger = 0
    assert server.line() == "AuthenticationError True"


@pytest.mark.timeout(20)
def test_a_silent_connection_is_reported_within_two_seconds(tmp_path):
    make_keys(tmp_path)
    with caraml.ZmqPuller(port=0, keys=tmp_path) as puller:
        with socket.create_connection(("127.0.0.1", puller.socket.port)):
            with pytest.raises(caraml.ZmqTimeoutError) as result:
                puller.pull(timeout=2.0)
            assert isinstance(result.value.__cause__, caraml.AuthenticationError)
        with caraml.ZmqPusher(address=puller.address, keys=tmp_path) as pusher:
            pusher.push(b"honest")
            assert puller.pull(timeout=5) == b"honest"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("spoil", ["writable list", "writable folder", "not text"])
def test_a_key_list_writable_by_others_admits_no_peer(tmp_path, spoil):
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
def test_a_zmq_context_with_another_authenticator_is_refused(tmp_path):
    make_keys(tmp_path)
    with zmq.Context() as context, context.socket(zmq.REP) as authenticator:
        authenticator.bind("inproc://zeromq.zap.01")
        for _ in range(2):
            with pytest.raises(caraml.SocketError, match="authenticator"):
                caraml.ZmqPuller(port=0, keys=tmp_path, context=context)
