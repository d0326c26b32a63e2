"""Old connections on a port, and an updated tmux, on a real tmux."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

import pytest

from symphony.backends.observe import Recorded
from symphony.backends.tmux import observe as tmux_observe
from symphony_tmux import leases
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows
from symphony_tmux.tmux.client import TmuxError

SERVER = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as server:
    print("listens", os.environ["AGAIN"], flush=True)
    connection, _ = server.accept()
    connection.close()  # The side that closes first keeps the port in TIME_WAIT.
    connection, _ = server.accept()
"""


@pytest.mark.thorough
def test_a_process_restarts_on_its_port_despite_old_connections(rig: Any) -> None:
    """Connections in TIME_WAIT, then an exit during an open connection."""
    # A session without services releases the ports of its owner.
    rig.session("web")
    port = leases.lease(rig.owner, {"web": None}, record=True).ports["web"]
    try:
        for number in range(3):
            env = {"PORT": str(port), "AGAIN": str(number)}
            outputs = rig.start("web", sys.executable, "-c", SERVER, env=env)
            result = f"listens {number}\r\n".encode()
            rig.until(lambda log=outputs, message=result: message in rig.printed(log))
            with socket.create_connection(("127.0.0.1", port)) as first:
                assert first.recv(1) == b""
            assert leases.lease(rig.owner, {"web": None}, record=True).ports == {"web": port}
            windows.delete(outputs, Snapshot())
    finally:
        leases.release(rig.owner)


def test_a_tmux_client_newer_than_its_server_is_a_one_line_error_with_both_versions(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = rig.session("a")["server_pid"]
    outputs = rig.start("a", "sleep", "100")
    newer = rig.home / "bin" / "tmux"
    newer.parent.mkdir()
    result = "protocol version mismatch (client 9, server 8)"
    newer.write_text(f"#!/bin/sh\n[ \"$1\" = -V ] && exec echo 'tmux 9.9'\necho '{result}' >&2\nexit 1\n")
    newer.chmod(0o755)
    with monkeypatch.context() as updated:
        updated.setenv("PATH", f"{newer.parent}:{os.environ['PATH']}")
        with pytest.raises(TmuxError) as caught:
            rig.start("a", "sleep", "200")
        [[status]] = tmux_observe.statuses([Recorded(rig.owner, "rl", {"a": outputs})])
    assert "\n" not in str(caught.value)
    assert result in caught.value.what
    assert f"end that with `kill {server}`" in caught.value.remedy
    assert status.state == "unknown"
    assert caught.value.what in status.why
    assert rig.condition(outputs).state == "running", "nothing was touched"
    os.kill(server, signal.SIGTERM)
    rig.until(lambda: not rig.living())
    assert rig.condition(outputs).reason == "the tmux server is gone"
    again = rig.start("a", "sleep", "100")
    assert rig.condition(again).state == "running"
