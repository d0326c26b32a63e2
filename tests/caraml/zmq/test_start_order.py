"""Peers may start in any order, and wait for each other."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import caraml

ORDERS = ("server-client-pusher-puller", "client-server-puller-pusher")
OPTIONS: dict[str, Any] = {"serializer": "msgpack", "deserializer": "msgpack"}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("order", ORDERS)
def test_four_peers_may_start_in_any_order(order, tmp_path):
    """Client and pusher send as soon as they run, with or without a peer."""
    asked, pushed = f"ipc://{tmp_path}/asked", f"ipc://{tmp_path}/pushed"
    with ExitStack() as peers:
        threads = peers.enter_context(ThreadPoolExecutor(max_workers=2))
        puller = answer = None
        for name in order.split("-"):
            if name == "server":
                server = peers.enter_context(caraml.ZmqServer(address=asked, **OPTIONS))
                server.start_loop(lambda request: request + 1, blocking=False)
            elif name == "client":
                client = peers.enter_context(caraml.ZmqClient(address=asked, timeout=20, **OPTIONS))
                answer = threads.submit(client.request, 41)
            elif name == "pusher":
                pusher = peers.enter_context(caraml.ZmqPusher(address=pushed, serializer="msgpack"))
                threads.submit(pusher.push, "a", timeout=20)
            else:
                puller = peers.enter_context(caraml.ZmqPuller(address=pushed, deserializer="msgpack"))
        assert puller is not None
        assert answer is not None
        assert (puller.pull(timeout=20), answer.result(20)) == ("a", 42)
