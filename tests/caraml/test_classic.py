"""Programs written for caraml 0.10 run unchanged: names, keywords, defaults, behaviour."""

import pickle
import threading
from typing import Any

import numpy as np
import pytest
import zmq

import caraml
from caraml.inmemory import inmem_deserialize, inmem_dump, inmem_serialize
from caraml.utils.serializer import (
    binary_hash,
    bytes2str,
    get_deserializer,
    get_serializer,
    pyobj_hash,
    str2bytes,
)
from caraml.zmq import (
    DataFetcher,
    ZmqClient,
    ZmqPub,
    ZmqPull,
    ZmqPuller,
    ZmqPush,
    ZmqPusher,
    ZmqReceiver,
    ZmqSender,
    ZmqServer,
    ZmqSocket,
    ZmqSub,
    ZmqTimeoutError,
)
from caraml.zmq.communicator import ZmqServer as ServerOfTheModule

SERIALIZERS = [
    (None, b"x"),
    ("str", "ö"),
    ("json", {"a": [1, None]}),
    ("pickle", {1: {2}}),
    ("pyarrow", {"a": [1]}),
]


def test_classic_names_are_aliases():
    assert ZmqPush is ZmqPusher is caraml.ZmqPusher
    assert ZmqPull is ZmqPuller
    assert ServerOfTheModule is ZmqServer
    assert issubclass(ZmqTimeoutError, Exception)
    assert ZmqTimeoutError().args


@pytest.mark.parametrize(("serializer", "value"), SERIALIZERS)
def test_push_pull_and_request_with_each_serializer(port, serializer, value):
    puller = ZmqPuller(host="*", port=port, deserializer=serializer, verbose=False, hwm=10)
    pusher = ZmqPusher(host="localhost", port=port, serializer=serializer)
    pusher.push(value)
    assert puller.pull() == value
    pusher.close()
    puller.close()
    server = ZmqServer(address=f"127.0.0.1:{port}", serializer=serializer, deserializer=serializer)
    keywords = {"timeout": 5, "serializer": serializer, "deserializer": serializer}
    client = ZmqClient(address=f"tcp://localhost:{port}", **keywords)
    thread = server.start_loop(handler=lambda message: message, blocking=False)
    assert isinstance(thread, threading.Thread)
    assert client.request(value) == value
    with pytest.raises(RuntimeError):
        server.start_loop(lambda message: message)
    server.stop()
    thread.join(2)
    assert not thread.is_alive()
    client.close()
    server.close()


def test_a_server_must_recv_and_send_in_turns(port):
    server = ZmqServer(host="127.0.0.1", port=port)
    client = ZmqClient(host="127.0.0.1", port=port)
    with pytest.raises(ValueError, match="recv"):
        server.send(b"")
    asking = threading.Thread(target=client.request, args=(b"a",))
    asking.start()
    assert server.recv() == b"a"
    with pytest.raises(ValueError, match="send"):
        server.recv()
    server.send(b"b")
    asking.join(5)


@pytest.mark.parametrize("bind", [False, True])
def test_a_client_works_after_a_timeout_and_calls_its_callback_again(bind):
    silent = ZmqServer(port=0)
    options = {"port": 0, "bind": True} if bind else {"host": "127.0.0.1", "port": silent.socket.port}
    called = []
    client = ZmqClient(timeout=0.2, callback=called.append, serializer="str", **options)
    before = client.address
    for _ in range(2):
        with pytest.raises(ZmqTimeoutError):
            client.request("x")
    assert client.address == before  # also with port 0: its server connects to where it was
    assert len(called) == 2
    assert called[-1] is client.socket
    silent.close()
    server = ZmqServer(address=before, bind=not bind)
    server.start_loop(bytes.upper)
    assert client.request("x", timeout=5) == b"X"
    assert len(called) > 2
    client.close()
    server.close()


def test_classic_serializer_attributes():
    with (
        ZmqServer(port=0, serializer="json", deserializer="str") as server,
        ZmqClient(address=server.address, serializer="str", deserializer=len) as client,
        ZmqPuller(port=0, deserializer="pickle") as puller,
        ZmqPusher(address=puller.address) as pusher,
    ):
        assert (client.host, client.port) == ("127.0.0.1", server.socket.port)
        assert client.serializer("ö") == "ö".encode()
        assert client.deserializer is len
        assert server.serializer([1]) == b"[1]"
        assert server.deserializer(b"x") == "x"
        assert puller.deserializer(pickle.dumps({1})) == {1}
        assert pusher.serializer(b"x") == b"x"
    with (
        ZmqReceiver(port=0, deserializer="json") as receiver,
        ZmqSender(address=receiver.address, serializer="json") as sender,
        ZmqPub(port=0, serializer="str") as publisher,
        ZmqSub(address=publisher.address, topic="", deserializer="str") as subscriber,
    ):
        assert receiver.deserializer(sender.serializer([1])) == [1]
        assert subscriber.deserializer(publisher.serializer("ö")) == "ö"


def test_a_given_context_stays_open_and_the_callback_runs_before_bind():
    seen = []
    with zmq.Context() as context:
        puller = ZmqPuller(
            port=0,
            context=context,
            callback=lambda socket: seen.append((socket.established, socket.socket_type)),
        )
        puller.close()
        assert not context.closed
    assert seen == [(False, "PULL")]


def test_zmq_socket_delegates_to_the_pyzmq_socket():
    socket = ZmqSocket(address="127.0.0.1:9", socket_mode="push", bind=False)
    assert socket.establish() is socket
    assert isinstance(socket.unwrap(), zmq.Socket)
    socket.linger = 0
    socket.setsockopt(zmq.SNDHWM, 7)
    assert (socket.unwrap().linger, socket.sndhwm) == (0, 7)
    assert (socket.socket_mode, socket.host) == (zmq.PUSH, "127.0.0.1")
    socket.close()
    assert socket.closed


@pytest.mark.timeout(60)
def test_data_fetcher_accepts_classic_keywords():
    server = ZmqServer(port=0, serializer="pyarrow", deserializer="pyarrow")
    server.start_loop(lambda n: {"a": np.full(30_000, n)})
    got = {}

    def take(request: int, shared: Any) -> None:
        got[request] = float(shared.data["a"].sum())

    fetcher = DataFetcher(
        handler=take,
        remote_host="localhost",
        remote_port=server.socket.port,
        requests=iter(range(10)),
        worker_comm_port=None,
        remote_deserialzer="pyarrow",
        worker_handler=lambda reply: {"a": reply["a"] * 2},
    )
    fetcher.start()
    fetcher.join(30)
    assert got == {n: 60_000.0 * n for n in range(10)}
    server.close()


def test_classic_inmemory_functions():
    shared: Any = inmem_deserialize(inmem_serialize({"a": np.arange(20_000)}))
    assert shared.data["a"][-1] == 19_999
    shared.delete()
    dumped = inmem_deserialize(inmem_dump(get_serializer("pyarrow")([1, {"b": 2}])))
    assert dumped.data == [1, {"b": 2}]


def test_classic_serializer_functions():
    for name, value in SERIALIZERS:
        assert get_deserializer(name)(get_serializer(name)(value)) == value
    assert bytes2str(str2bytes("ö")) == bytes2str("ö") == "ö"
    assert len(binary_hash(b"x")) == len(pyobj_hash([1], "json")) == 16
    with pytest.raises(ValueError, match="msgpack"):
        get_serializer("nothing")
