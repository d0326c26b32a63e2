"""Arrays after send, killed fetch workers, full shared memory, an ipc path bound twice."""

# ruff: noqa: E501

import errno
import time
from pathlib import Path

import numpy as np
import pytest

import caraml


@pytest.mark.timeout(30)
@pytest.mark.parametrize("nbytes", [100, 100_000, 4 << 20])
def test_changing_an_array_after_send_does_not_change_the_message(nbytes):
    with caraml.ZmqPuller(port=0, deserializer="msgpack") as puller:
        pusher = caraml.ZmqPusher(address=puller.address, serializer="msgpack")
        array = np.zeros(nbytes, np.uint8)
        for n in range(5):
            array[:] = n
            pusher.push({"a": array})
            array[:] = 255
        assert [int(puller.pull(timeout=5)["a"].max()) for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", ["worker killed", "no memory"])
def test_the_fetcher_survives_a_killed_worker_and_full_shared_memory(spawn, case):
    before = sorted(path.name for path in Path("/dev/shm").iterdir())
    program = spawn(
        """
        import os, resource, signal, sys, time, numpy, caraml
        server = caraml.ZmqServer(port=0, serializer="msgpack", deserializer="msgpack")
        def answer(request):
            time.sleep(0.01)
            return numpy.full(1 << 17, request)
        server.start_loop(answer)
        if sys.argv[1] == "no memory":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        got = []
        def handle(request, shared):
            assert (shared.data == request).all()
            got.append(request)
            shared.delete()
            # A worker without a task proves nothing: then another is killed.
            if len(got) in (5, 15) and not fetcher.refetched and sys.argv[1] == "worker killed":
                os.kill(next(iter(fetcher._workers.values())).pid, signal.SIGKILL)
        fetcher = caraml.DataFetcher(handle, "127.0.0.1", server.socket.port, range(60), worker_comm_port=None)
        fetcher.start()
        fetcher.join(30)
        print(sorted(got) == list(range(60)), fetcher.refetched, fetcher.is_alive())
        """,
        case,
    )
    whole, refetched, alive = program.line().split()
    assert (whole, alive) == ("True", "False")
    assert (int(refetched) > 0) == (case == "worker killed")
    assert program.end(5)[0] == 0
    assert sorted(path.name for path in Path("/dev/shm").iterdir()) == before


@pytest.mark.timeout(20)
def test_binding_an_ipc_path_in_use_raises_and_a_stale_path_is_replaced(spawn, tmp_path):
    address = f"ipc://{tmp_path}/socket"
    first = spawn(
        """
        import sys, time, caraml
        puller = caraml.ZmqPuller(address=sys.argv[1])
        print("bound")
        print(puller.pull())
        time.sleep(30)
        """,
        address,
    )
    assert first.line() == "bound"
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    with pytest.raises(caraml.AddressInUseError, match="socket") as caught:
        caraml.ZmqPuller(address=address)
    assert caught.value.errno == errno.EADDRINUSE
    with caraml.ZmqPusher(address=address) as pusher:
        pusher.push(b"still there")
        assert first.line() == "b'still there'"
    first.kill()
    assert (tmp_path / "socket").exists()
    caraml.ZmqPuller(address=address).close()
    deadline = time.monotonic() + 2  # ZeroMQ closes in the background
    while (tmp_path / "socket").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not (tmp_path / "socket").exists()
