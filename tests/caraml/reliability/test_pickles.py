"""Pickles that are not signed with our key are refused, and never loaded."""

import logging
import os
import pickle
import threading
import time
from pathlib import Path

import pytest
import zmq

import caraml
from caraml import pickled


class Canary:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


@pytest.mark.timeout(30)
def test_pickles_of_unauthenticated_peers_are_never_loaded(spawn, tmp_path, monkeypatch):
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
    with pytest.raises(caraml.PickleRefusedError, match="@pickles"):
        caraml.ZmqPuller(address=f"ipc://@pickles-{os.getpid()}", deserializer="pickle")
    address = f"ipc://{tmp_path}/pickles"
    with (
        caraml.ZmqPuller(address=address, deserializer="pickle") as puller,
        caraml.ZmqPusher(address=address, serializer="pickle") as pusher,
    ):
        pusher.push({2})
        assert puller.pull(timeout=5) == {2}
    with (
        caraml.ZmqPuller(address="inproc://pickles", deserializer="pickle") as puller,
        caraml.ZmqPusher(address="inproc://pickles", serializer="pickle") as pusher,
    ):
        pusher.push({1})
        assert puller.pull(timeout=5) == {1}


@pytest.mark.timeout(20)
def test_pickles_of_an_impostor_on_an_ipc_path_are_never_loaded(tmp_path, monkeypatch):
    """Another user may have bound the path first, so an answer must be signed where there is a key."""
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


@pytest.mark.timeout(30)
def test_a_pickle_signed_with_another_key_is_refused_with_one_warning(spawn, monkeypatch, caplog):
    monkeypatch.setenv(pickled.KEY_VARIABLE, "the key of this host, sixteen or more")
    puller = caraml.ZmqPuller(port=0, deserializer="pickle")
    sender = """
        import os, sys, caraml
        os.environ["CARAML_PICKLE_KEY"] = "the key of another host, of a pod"
        with caraml.ZmqPusher(address=sys.argv[1], serializer="pickle") as pusher:
            pusher.push(1)
            pusher.push(2)
        with caraml.ZmqPusher(address=sys.argv[1]) as pusher:
            pusher.push(b"end")
    """
    spawn(sender, puller.address)
    deadline = time.monotonic() + 20
    with puller, caplog.at_level(logging.WARNING, "caraml"):
        while puller.rejected < 3 and time.monotonic() < deadline:
            with pytest.raises(caraml.ZmqTimeoutError):
                puller.pull(timeout=0.5)
    assert puller.rejected == 3
    (messages,) = [record for record in caplog.records if "rejected" in record.message]
    assert "CARAML_PICKLE_KEY" in messages.message
    assert puller.address in messages.message


@pytest.mark.parametrize("address", ["tcp://here", "ipc:///tmp/here"])
def test_a_key_that_is_too_short_is_refused_on_every_transport(monkeypatch, address):
    monkeypatch.setenv(pickled.KEY_VARIABLE, "short")
    with pytest.raises(caraml.PickleRefusedError, match="shorter"):
        pickled.pickle_codec(address, False, None)
