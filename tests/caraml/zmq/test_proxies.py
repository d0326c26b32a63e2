"""Proxies as threads and processes: forwarding, start, failed bind, stop."""

import contextlib

import pytest

import caraml
from caraml.zmq import (
    ZmqClient,
    ZmqProxyProcess,
    ZmqProxyThread,
    ZmqPuller,
    ZmqPusher,
    ZmqServer,
)


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
    proxy.join(5)
    assert not proxy.is_alive()
    with pytest.raises(ValueError, match="router-dealer"):
        kind("a", "b", pattern="pub-sub")
    with running_proxy(kind, pattern="pull-push") as proxy:
        puller, pusher = ZmqPuller(address=proxy.out_add, bind=False), ZmqPusher(address=proxy.in_add)
        pusher.push(b"through")
        assert puller.pull(timeout=5) == b"through"


@contextlib.contextmanager
def running_proxy(kind, **options):
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
def test_a_proxy_that_cannot_bind_raises_an_error(kind, caplog):
    with ZmqPuller(port=0) as there:
        proxy = kind("tcp://127.0.0.1:*", there.address)
        proxy.start()
        for _ in range(2):
            with pytest.raises(caraml.AddressInUseError, match=there.address):
                proxy.wait_bound(5)
        proxy.join(5)
        assert not proxy.is_alive()
    if kind is ZmqProxyThread:
        assert there.address in caplog.text  # a ZmqProxyProcess logs it in its child


def test_a_proxy_that_is_stopped_before_it_has_bound_ends():
    proxy = ZmqProxyThread(in_add="tcp://127.0.0.1:*", out_add="tcp://127.0.0.1:*", pattern="pull-push")
    proxy.stop()
    proxy.start()
    proxy.stop()
    proxy.join(5)
    assert not proxy.is_alive()


@pytest.mark.parametrize("kind", [ZmqProxyThread, ZmqProxyProcess])
def test_proxies_accept_service_names(kind, monkeypatch, port):
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
