"""DataFetcher: slow handlers, workers that never start, a missing address."""

import os
import time

import numpy as np
import pytest

import caraml


@pytest.fixture
def port():
    with caraml.ZmqServer(port=0, serializer="msgpack", deserializer="msgpack") as server:
        server.start_loop(lambda n: {"n": n, "array": np.full(10_000, n)})
        yield server.socket.port


@pytest.mark.timeout(60)
def test_a_slow_handler_causes_no_refetch(port):
    got = []

    def handle(request, shared):
        got.append((request, shared.data["n"]))
        time.sleep(0.5 if request < 3 else 0)

    fetcher = caraml.DataFetcher(handle, "127.0.0.1", port, range(12), n_workers=1)
    fetcher.start()
    fetcher.join(20)
    assert not fetcher.is_alive()
    assert sorted(got) == [(n, n) for n in range(12)]
    assert fetcher.refetched == 0


@pytest.mark.timeout(60)
def test_workers_that_never_start_are_an_error(port, monkeypatch):
    monkeypatch.setattr(caraml.DataFetcher, "_fetch_all", lambda self, pipe: os._exit(7))
    fetcher = caraml.DataFetcher(lambda request, shared: None, "127.0.0.1", port, range(3), n_workers=1)
    fetcher.start()
    with pytest.raises(caraml.CaramlError, match="exit code 7"):
        fetcher.join(30)


def test_a_missing_server_address_is_an_error_at_once():
    with pytest.raises(caraml.AddressError):
        caraml.DataFetcher(print)
