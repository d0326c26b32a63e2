"""Addresses of sockets: tcp, ipc, inproc, IPv6, and services of an experiment."""

import ast
from pathlib import Path

import pytest

import caraml
from caraml import service_env
from caraml.zmq import (
    ZmqClient,
    ZmqProxyThread,
    ZmqPub,
    ZmqPuller,
    ZmqPusher,
    ZmqReceiver,
    ZmqSender,
    ZmqServer,
    ZmqSub,
)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("address", ["ipc://{}/s", "inproc://classic-all", "tcp://[::1]:{port}"])
def test_every_pattern_works_over_ipc_inproc_and_ipv6(address, port, tmp_path):
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


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"host": "a"},
        {"host": "a", "port": "b"},
        {"host": "a b", "port": 7000},
        {"host": "http://x", "port": 7000},
        {"host": "tcp//tcp://x", "port": 7000},
        {"address": "tcp://a"},
        {"address": "tcp:/x:7000"},
        {"address": "a:b"},
    ],
)
def test_unusable_addresses_are_value_errors(wrong):
    with pytest.raises(ValueError):
        ZmqPusher(**wrong)


def test_a_port_without_host_means_loopback():
    with ZmqPuller(port=0) as puller:
        assert puller.socket.host == "127.0.0.1"
        assert puller.socket.port > 0


def test_sockets_find_services_by_name(monkeypatch, port):
    variables = service_env.service_variables("replay-server", "localhost", port, bind_host="127.0.0.1")
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
        service_env.connector_endpoint("other", many)


def test_service_variables_give_bind_and_connect_addresses():
    on_kubernetes = service_env.service_variables("a", "a.ns.svc", 1, bind_host="0.0.0.0")
    assert service_env.binder_endpoint("a", on_kubernetes) == ("0.0.0.0", 1)
    assert service_env.connector_endpoint("a", on_kubernetes) == ("a.ns.svc", 1)
    assert service_env.binder_endpoint("a", service_env.service_variables("a", "a.ns.svc", 1)) == ("*", 1)
    assert service_env.binder_endpoint("a", service_env.service_variables("a", "127.0.0.1", 1)) == (
        "127.0.0.1",
        1,
    )
    assert service_env.service_variables("a", "::1", 1)["SYMPH_A_ADDR"] == "[::1]:1"
    tree = ast.parse(Path(service_env.__file__).read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
