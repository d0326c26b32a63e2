"""CURVE keys: only allowed peers can send, and both sides report a refusal; the command that makes keys."""

import socket
import time

import pytest
import zmq

import caraml
from caraml.keys import main as keys_main
from caraml.keys import make_keys
from caraml.zmq import (
    ZmqPuller,
    ZmqPusher,
    ZmqSocket,
)


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


def test_a_new_client_gets_a_line_of_its_own_in_a_list_without_a_final_newline(tmp_path):
    make_keys(tmp_path)
    first = (tmp_path / "client.public").read_bytes()
    (tmp_path / "allowed").write_bytes(first)
    make_keys(tmp_path, ("second",))
    assert caraml.keys.Keys(str(tmp_path)).allowed() == {first, (tmp_path / "second.public").read_bytes()}


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


def test_keys_command_creates_private_keys(tmp_path, capsys):
    keys_main([str(tmp_path / "keys"), "agent-1", "agent-2"])
    assert "agent-1.secret" in capsys.readouterr().out
    folder = tmp_path / "keys"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert len((folder / "allowed").read_text().splitlines()) == 2
    agent = f"{folder}:agent-2"
    with ZmqPuller(port=0, keys=folder) as puller, ZmqPusher(address=puller.address, keys=agent) as pusher:
        pusher.push(b"x")
        assert puller.pull(timeout=5) == b"x"
    for wrong in ("server", "../x", ""):
        with pytest.raises(SystemExit) as ended:
            keys_main([str(folder), wrong])
        assert ended.value.code == 1
    (folder / "server.secret").chmod(0o644)
    with pytest.raises(caraml.KeyFileError, match="chmod 600"):
        ZmqPuller(port=0, keys=folder)


@pytest.mark.parametrize("half", ["server.public", "server.secret", "client.public", "client.secret"])
def test_half_a_key_pair_is_kept_and_reported(tmp_path, capsys, half):
    """A client's folder has only `server.public`, which creating keys there once replaced."""
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / half).write_text("k" * 40)
    with pytest.raises(SystemExit) as ended:
        keys_main([str(folder)])
    assert ended.value.code == 1
    assert f"{folder / half} exists without" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [half]
    assert (folder / half).read_text() == "k" * 40


def test_existing_keys_are_kept_when_keys_are_added(tmp_path):
    keys_main([str(tmp_path), "a"])
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    keys_main([str(tmp_path), "a", "b"])
    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before if name != "allowed"} == {
        name: text for name, text in before.items() if name != "allowed"
    }
    assert after["allowed"].startswith(before["allowed"])
    assert after["allowed"].count("\n") == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("modes", [("PUSH", "PULL"), ("DEALER", "DEALER")], ids=["push", "dealer"])
def test_a_socket_without_keys_delivers_before_close_beside_one_with_keys(tmp_path, modes):
    make_keys(tmp_path)
    with caraml.ZmqPuller(port=0, keys=tmp_path):
        for _ in range(60):
            receiver = ZmqSocket(port=0, socket_mode=modes[1], bind=True).establish()
            receiver.rcvtimeo = 5000
            sender = ZmqSocket(address=receiver.address, socket_mode=modes[0], bind=False).establish()
            sender.send(b"last word")
            sender.close()
            assert receiver.recv() == b"last word"
            receiver.close(0)
