"""Out of memory, old connections on a port, and an updated tmux, on a real tmux."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.observe import Recorded
from symphony.backends.tmux import observe as tmux_observe
from symphony_tmux import leases
from symphony_tmux import logs as reader
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import windows
from symphony_tmux.tmux.client import TmuxError

# Of cgroups v1 and v2.
LIMITS = (("memory", "memory.limit_in_bytes"), ("", "memory.max"))
HOG = "x = bytearray(b'x') * (1 << 30)"


@pytest.fixture
def memory_limit_line(tmp_path: Path) -> Iterator[str]:
    """Return a shell line that limits memory to 64 MiB, or a KILL where no limit can be set."""
    group = next(filter(None, (_group(*each) for each in LIMITS)), None)
    yield f"echo $$ >{group}/cgroup.procs" if group else "kill -9 $$"
    if group:
        group.rmdir()


def _group(folder: str, limit: str) -> Path | None:
    group = Path("/sys/fs/cgroup", folder, f"symphony-test-{os.getpid()}")
    with suppress(OSError):
        group.mkdir()
        if (group / limit).exists():
            (group / limit).write_text(str(64 << 20))
            return group
        group.rmdir()
    return None


def test_out_of_memory_is_reported_and_restarts_back_off(rig: Any, memory_limit_line: str) -> None:
    rig.session("killed", "refused", "again")
    python = shlex.quote(sys.executable)
    killed = rig.script("killed", memory_limit_line, f'exec {python} -c "{HOG}"')
    refused = rig.script("refused", "ulimit -v 300000", f'exec {python} -c "{HOG}"')
    again = rig.script("again", "kill -9 $$", restart_policy="Always")
    assert rig.ended(killed, 20).pane.signal == signal.SIGKILL
    assert rig.ended(refused, 20).pane.exit_code == 1
    recorded = Recorded(rig.owner, "rl", {"killed": killed, "refused": refused})
    [statuses] = tmux_observe.statuses([recorded])
    assert {each.path: (each.state, each.why) for each in statuses} == {
        "killed": ("failed", "killed by SIGKILL"),
        "refused": ("failed", "exit 1: MemoryError"),
    }
    link = tmux_observe.why(recorded, "killed", "rl")[-1]
    assert "ran out of memory" in link.remedy
    rig.until(lambda: len(reader.attempts(again["log"])) > 1)
    (_, first, _), (_, second, _) = reader.attempts(again["log"])
    assert second - first > 0.9, "after 1, 2, 4 and more seconds, not as fast as it dies"


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
    """Each server leaves a connection in TIME_WAIT on the port of the next one."""
    # A session without services releases the ports of its owner.
    rig.session("web")
    port = leases.lease(rig.owner, {"web": None}).ports["web"]
    try:
        for number in range(3):
            env = {"PORT": str(port), "AGAIN": str(number)}
            outputs = rig.start("web", sys.executable, "-c", SERVER, env=env)
            result = f"listens {number}\r\n".encode()
            rig.until(lambda log=outputs, message=result: message in rig.printed(log))
            with socket.create_connection(("127.0.0.1", port)) as first:
                assert first.recv(1) == b""
            assert leases.lease(rig.owner, {"web": None}).ports == {"web": port}
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
