"""Programs written for caraml 0.10 run unchanged: names, keywords, defaults, behaviour; and service names."""

import ast
import contextlib
import doctest
import importlib
import pickle
import pkgutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

import caraml
from caraml import contract
from caraml.inmemory import inmem_deserialize, inmem_dump, inmem_serialize
from caraml.keys import main as keys_main
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
    ZmqProxyProcess,
    ZmqProxyThread,
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

ROOT = Path(__file__).resolve().parents[2]
SERIALIZERS = [
    (None, b"x"),
    ("str", "ö"),
    ("json", {"a": [1, None]}),
    ("pickle", {1: {2}}),
    ("pyarrow", {"a": [1]}),
]


@pytest.fixture
def port():
    with zmq.Context() as context, context.socket(zmq.PULL) as probe:
        return probe.bind_to_random_port("tcp://127.0.0.1")


def test_names():
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


def test_server_takes_turns(port):
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


def test_sender_receiver_and_pub_sub(port):
    receiver = ZmqReceiver(host="127.0.0.1", port=port, deserializer="json")
    sender = ZmqSender(host="127.0.0.1", port=port, serializer="json", timeout=5)
    sending = threading.Thread(target=sender.send, args=([1],))
    sending.start()
    assert receiver.recv() == [1]
    sending.join(5)
    assert sender.close()
    receiver.close()
    got = []
    publisher = ZmqPub(host="127.0.0.1", port=port, serializer="pickle")
    subscriber = ZmqSub(host="127.0.0.1", port=port, topic="a", deserializer="pickle")
    subscriber.start_loop(got.append)
    publisher.wait_subscribers(1, timeout=5)
    publisher.pub("b", 0)
    publisher.pub(b"ab", {1})
    deadline = time.monotonic() + 5
    while not got and time.monotonic() < deadline:
        time.sleep(0.01)
    assert got == [{1}]
    subscriber.close()
    publisher.close()


@pytest.mark.parametrize(("serializer", "value"), SERIALIZERS)
def test_acknowledged_delivery_with_each_serializer(serializer, value):
    """With a loop, as its programs use it: `handler(message)` for each, and `stop()`."""
    receiver = ZmqReceiver(host="127.0.0.1", port=0, deserializer=serializer)
    got = []
    thread = receiver.start_loop(got.append)
    sender = ZmqSender(address=receiver.address, serializer=serializer, timeout=5)
    for _ in range(3):
        sender.send(value)
    sender.flush(5)
    assert sender.close()
    wait_until(lambda: len(got) == 3)
    assert got == [value] * 3
    receiver.stop()
    thread.join(2)
    assert not thread.is_alive()
    receiver.close()


def wait_until(true, seconds=5):
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("bind", [False, True])
def test_a_client_serves_on_after_a_timeout_and_its_callback_is_called_again(bind):
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
    wait_until(lambda: asked(client))
    assert client.request("x", timeout=5) == b"X"
    assert len(called) > 2
    client.close()
    server.close()


def asked(client):
    try:
        return client.request("x") == b"X"
    except ZmqTimeoutError:
        return False


def test_classic_attributes():
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


@pytest.mark.timeout(30)
@pytest.mark.parametrize("address", ["ipc://{}/s", "inproc://classic-all", "tcp://[::1]:{port}"])
def test_every_pattern_over_addresses_the_original_rejected(address, port, tmp_path):
    address = address.format(tmp_path, port=port)
    with ZmqServer(address=address) as server:
        server.start_loop(bytes.upper)
        with ZmqClient(address=address, timeout=5) as client:
            assert client.request(b"x") == b"X"
    with ZmqReceiver(address=address) as receiver:
        receiver.start_loop(bytes.upper)
        sender = ZmqSender(address=address, timeout=5)
        sender.send(b"x")
        assert sender.close(5)
    with ZmqPub(address=address) as publisher, ZmqSub(address=address, topic="a") as subscriber:
        publisher.wait_subscribers(1, timeout=5)
        publisher.pub("a", b"x")
        assert subscriber.recv(timeout=5) == b"x"
    proxy = ZmqProxyThread(address, "tcp://127.0.0.1:*", pattern="pull-push")
    proxy.start()
    proxy.wait_bound(5)
    with ZmqPuller(address=proxy.out_add, bind=False) as puller, ZmqPusher(address=address) as pusher:
        pusher.push(b"x")
        assert puller.pull(timeout=5) == b"x"
    proxy.stop()


@pytest.mark.parametrize("address", ["ipc://{}/s", "inproc://classic", "tcp://[::1]:{port}"])
def test_addresses_the_original_rejected(address, port, tmp_path):
    address = address.format(tmp_path, port=port)
    with ZmqPuller(address=address) as puller:
        ZmqPusher(address=address).push(b"x")
        assert puller.pull(timeout=5) == b"x"


@pytest.mark.parametrize(
    "wrong", [{}, {"host": "a"}, {"address": "tcp://a"}, {"address": "a:b"}, {"host": "a", "port": "b"}]
)
def test_unusable_addresses_are_value_errors(wrong):
    with pytest.raises(ValueError):
        ZmqPusher(**wrong)


def test_a_port_alone_is_loopback():
    with ZmqPuller(port=0) as puller:
        assert puller.socket.host == "127.0.0.1"
        assert puller.socket.port > 0


def test_given_context_is_not_closed_and_callback_comes_before_bind():
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


def test_socket_is_the_pyzmq_socket_otherwise():
    socket = ZmqSocket(address="127.0.0.1:9", socket_mode="push", bind=False)
    assert socket.establish() is socket
    assert isinstance(socket.unwrap(), zmq.Socket)
    socket.linger = 0
    socket.setsockopt(zmq.SNDHWM, 7)
    assert (socket.unwrap().linger, socket.sndhwm) == (0, 7)
    assert (socket.socket_mode, socket.host) == (zmq.PUSH, "127.0.0.1")
    socket.close()
    assert socket.closed


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", [ZmqProxyThread, ZmqProxyProcess])
def test_proxies_forward_both_patterns_and_stop(kind):
    proxy = kind("tcp://127.0.0.1:*", "tcp://127.0.0.1:*")
    proxy.start()
    proxy.wait_bound(5)
    server = ZmqServer(address=proxy.out_add, bind=False)
    server.start_loop(bytes.upper)
    client = ZmqClient(address=proxy.in_add, timeout=5)
    assert client.request(b"x") == b"X"
    proxy.stop()
    assert not proxy.is_alive() or proxy.join(1) is None
    with pytest.raises(ValueError, match="router-dealer"):
        kind("a", "b", pattern="pub-sub")
    with kind_running(kind, pattern="pull-push") as proxy:
        puller, pusher = ZmqPuller(address=proxy.out_add, bind=False), ZmqPusher(address=proxy.in_add)
        pusher.push(b"through")
        assert puller.pull(timeout=5) == b"through"


@contextlib.contextmanager
def kind_running(kind, **options):
    proxy = kind("tcp://127.0.0.1:*", "tcp://127.0.0.1:*", **options)
    proxy.start()
    try:
        proxy.wait_bound(5)
        yield proxy
    finally:
        proxy.stop()
        proxy.join(5)
        assert not proxy.is_alive()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", [ZmqProxyThread, ZmqProxyProcess])
def test_a_proxy_that_cannot_bind_says_so(kind, capfd):
    with ZmqPuller(port=0) as there:
        proxy = kind("tcp://127.0.0.1:*", there.address)
        proxy.start()
        for _ in range(2):
            with pytest.raises(caraml.AddressInUseError, match=there.address):
                proxy.wait_bound(5)
        proxy.join(5)
        assert not proxy.is_alive()
    assert capfd.readouterr() == ("", "")


@pytest.mark.timeout(30)
def test_a_proxys_process_that_was_killed_is_no_wait(tmp_path):
    proxy = ZmqProxyProcess(f"ipc://{tmp_path}/in", f"ipc://{tmp_path}/out")
    proxy.start()
    proxy.wait_bound(5)
    proxy.kill()
    proxy.join(5)
    proxy.stop()
    unbound = ZmqProxyProcess(f"ipc://{tmp_path}/none/in", f"ipc://{tmp_path}/none/out")
    unbound._obey = lambda: None  # never says how binding went
    unbound.start()
    with pytest.raises(caraml.CaramlError, match="ended before it bound"):
        unbound.wait_bound(10)


@pytest.mark.parametrize("kind", [ZmqProxyThread, ZmqProxyProcess])
def test_proxies_take_services(kind, monkeypatch, port):
    monkeypatch.setenv("SYMPH_FRONT_HOST", "127.0.0.1")
    monkeypatch.setenv("SYMPH_FRONT_PORT", str(port))
    monkeypatch.setenv("SYMPH_FRONT_BIND", "127.0.0.1")
    with pytest.raises(caraml.ServiceVariableError, match="SYMPH_BACK_PORT is not set"):
        kind(in_service="front", out_service="back")
    with pytest.raises(caraml.AddressError, match="service"):
        kind(in_service="front")
    proxy = kind(in_service="front", out_add="tcp://127.0.0.1:*", pattern="pull-push")
    proxy.start()
    proxy.wait_bound(5)
    with ZmqPusher(service="front") as pusher, ZmqPuller(address=proxy.out_add, bind=False) as puller:
        pusher.push(b"x")
        assert puller.pull(timeout=5) == b"x"
    proxy.stop()


@pytest.mark.timeout(60)
def test_fetcher_with_the_classic_keywords():
    server = ZmqServer(port=0, serializer="pyarrow", deserializer="pyarrow")
    server.start_loop(lambda n: {"a": np.full(30_000, n)})
    got = {}
    fetcher = DataFetcher(
        handler=lambda request, data: got.__setitem__(request, float(data.data["a"].sum())),
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


def test_inmemory():
    shared = inmem_deserialize(inmem_serialize({"a": np.arange(20_000)}))
    assert shared.data["a"][-1] == 19_999
    shared.delete()
    dumped = inmem_deserialize(inmem_dump(get_serializer("pyarrow")([1, {"b": 2}])))
    assert dumped.data == [1, {"b": 2}]


def test_serializer_functions():
    for name, value in SERIALIZERS:
        assert get_deserializer(name)(get_serializer(name)(value)) == value
    assert bytes2str(str2bytes("ö")) == bytes2str("ö") == "ö"
    assert len(binary_hash(b"x")) == len(pyobj_hash([1], "json")) == 16
    with pytest.raises(ValueError, match="msgpack"):
        get_serializer("nothing")


def test_service_names(monkeypatch, port):
    variables = contract.service_variables("replay-server", "localhost", port, bind_host="127.0.0.1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with ZmqPuller(service="replay-server") as puller, ZmqPusher(service="replay-server") as pusher:
        pusher.push(b"x")
        assert puller.pull(timeout=5) == b"x"
    with pytest.raises(caraml.ServiceVariableError, match=r"SYMPH_OTHER_HOST.*replay-server"):
        ZmqPusher(service="other")
    monkeypatch.delenv("SYMPH_REPLAY_SERVER_PORT")
    there = r"\(variables: .*SYMPH_REPLAY_SERVER_ADDR, SYMPH_REPLAY_SERVER_BIND, SYMPH_REPLAY_SERVER_HOST.*\)"
    with pytest.raises(caraml.CaramlError, match=rf"SYMPH_REPLAY_SERVER_PORT is not set.*{there}") as raised:
        ZmqPuller(service="replay-server")
    assert isinstance(raised.value, caraml.ServiceVariableError)
    assert (raised.value.variable, raised.value.service) == ("SYMPH_REPLAY_SERVER_PORT", "replay-server")
    many = {f"SYMPH_S{n}_PORT": "1" for n in range(1000)}
    with pytest.raises(caraml.ServiceVariableError, match="976 more"):
        contract.connector_endpoint("other", many)


def test_contract_what_to_bind():
    on_kubernetes = contract.service_variables("a", "a.ns.svc", 1, bind_host="0.0.0.0")
    assert contract.binder_endpoint("a", on_kubernetes) == ("0.0.0.0", 1)
    assert contract.connector_endpoint("a", on_kubernetes) == ("a.ns.svc", 1)
    assert contract.binder_endpoint("a", contract.service_variables("a", "a.ns.svc", 1)) == ("*", 1)
    assert contract.binder_endpoint("a", contract.service_variables("a", "127.0.0.1", 1)) == ("127.0.0.1", 1)
    assert contract.service_variables("a", "::1", 1)["SYMPH_A_ADDR"] == "[::1]:1"
    tree = ast.parse(Path(contract.__file__).read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def modules():
    return sorted(info.name for info in pkgutil.walk_packages(caraml.__path__, "caraml."))


@pytest.mark.parametrize("name", ["caraml", *modules()])
def test_module_docstrings_say_what_and_run(name):
    module = importlib.import_module(name)
    assert module.__doc__
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_imports_neither_symphony_nor_pulumi_and_little_else():
    program = "import sys, caraml; caraml.ZmqPusher, caraml.ZmqClient, caraml.ZmqPub; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"symphony", "pulumi", "pyarrow", "psutil", "multiprocessing"}.isdisjoint(tops)


@pytest.mark.timeout(120)
def test_import_time():
    """With its sockets at most 1.5 times that of zmq and numpy: the best of several, interleaved, retried."""

    def seconds(program):
        code = f"import time; t = time.process_time(); {program}; print(time.process_time() - t)"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)

    for _ in range(3):
        pairs = [
            (seconds("import zmq, numpy"), seconds("import caraml; caraml.ZmqPusher, caraml.ZmqClient"))
            for _ in range(7)
        ]
        base, ours = min(base for base, _ in pairs), min(ours for _, ours in pairs)
        if ours <= 1.5 * base:
            return
    raise AssertionError(f"{ours:.3f} s against {base:.3f} s")


def test_keys_command(tmp_path, capsys):
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
def test_half_a_pair_of_keys_is_kept_and_told(tmp_path, capsys, half):
    """A client's folder holds `server.public` alone: making keys there replaced it, unasked."""
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / half).write_text("k" * 40)
    with pytest.raises(SystemExit) as ended:
        keys_main([str(folder)])
    assert ended.value.code == 1
    assert f"{folder / half} is there without" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [half]
    assert (folder / half).read_text() == "k" * 40


def test_existing_keys_are_kept(tmp_path):
    keys_main([str(tmp_path), "a"])
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    keys_main([str(tmp_path), "a", "b"])
    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before if name != "allowed"} == {
        name: text for name, text in before.items() if name != "allowed"
    }
    assert after["allowed"].startswith(before["allowed"])
    assert after["allowed"].count("\n") == 2
