"""Plain `pulumi up` restarts processes that a user or a crash removed, without a refresh."""

from __future__ import annotations

import os
import signal

import pytest

from tests.conformance.tmux_backend import TmuxBackend
from tests.sandbox import Sandbox, wait_for

PROGRAM = """
with Experiment() as e:
    for name in ("a", "b", "c"):
        e.new_process(name, command=["sleep", "3600"]).binds("service-" + name)
"""
UP = ("up", "--stack=rl", "--yes", "--skip-preview")


@pytest.mark.thorough
def test_pulumi_up_repairs_a_closed_window_and_a_killed_tmux_server(sandbox: Sandbox) -> None:
    backend = TmuxBackend(sandbox)
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    before = backend.identities("rl")
    addresses = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]

    backend.lose("rl", "b")
    assert sandbox.processes("rl")["b"]["state"] == "lost"
    (row,) = sandbox.symphony("ls", "--json").json
    assert "lost" in row["state"]
    assert "symphony up rl" in row["hint"]
    sandbox.pulumi(*UP)
    after = backend.identities("rl")
    assert {path for path in after if after[path] == before[path]} == {"a", "c"}

    (server,) = sandbox.servers()
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not sandbox.servers(), 10, "the server is gone")
    states = {path: each["state"] for path, each in sandbox.processes("rl").items()}
    assert states == {"a": "lost", "b": "lost", "c": "lost"}
    sandbox.pulumi(*UP)
    restored = backend.identities("rl")
    assert {path: len(tops) for path, tops in restored.items()} == {"a": 1, "b": 1, "c": 1}
    assert {each["state"] for each in sandbox.processes("rl").values()} == {"running"}
    assert sandbox.symphony("plan", "rl", "--json").json["plan"]["services"] == addresses
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
