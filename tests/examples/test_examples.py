"""The stacks of the repository, run as their READMEs say."""

from __future__ import annotations

import os
import re
import signal

import psutil
import pytest

from tests.sandbox import SYMPHONY, Sandbox, wait_for


def log_of(sandbox: Sandbox, *words: str) -> str:
    return sandbox.symphony("logs", *words).out


@pytest.mark.thorough
def test_numint_survives_a_killed_worker(sandbox: Sandbox) -> None:
    """It dies in the middle of a piece: the result is right, and every piece counts once."""
    settings = "config:\n  numint:workers: '3'\n  numint:steps: '300000000'\n  numint:pieces: '60'\n"
    (sandbox.folder / "stacks" / "Pulumi.numint.yaml").write_text(settings)
    running = sandbox.start([str(SYMPHONY), "up", "numint", "-y"])
    log = sandbox.home / "experiments" / "numint" / "processes" / "pool-0.worker-0" / "log"
    wait_for(lambda: log.exists() and b"piece " in log.read_bytes(), 30, "the worker works", pause=0.01)
    pids = sandbox.trees()["numint/pool-0/worker-0"]
    os.kill(max(pids, key=lambda pid: psutil.Process(pid).create_time()), signal.SIGKILL)
    running.communicate(timeout=30)
    wait_for(
        lambda: re.search(r"pi = .*: right", log_of(sandbox, "numint", "reducer")),
        60,
        "the result",
        pause=0.5,
    )
    result = log_of(sandbox, "numint", "reducer")
    assert "pi = 3.141592653" in result
    assert "from 3 workers" in result
    assert "60/60 pieces" in result
    statuses = sandbox.processes("numint")
    assert statuses["pool-0/worker-0"]["state"] == "failed"
    assert "SIGKILL" in statuses["pool-0/worker-0"]["why"]
    wait_for(lambda: sandbox.processes("numint")["reducer"]["state"] == "completed", 20, "the reducer ends")
    sandbox.symphony("delete", "numint", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_up_of_a_stack_without_program_suggests_the_nearest_name(sandbox: Sandbox) -> None:
    ran = sandbox.symphony("up", "helo", "-y", code=2)
    assert "hello" in ran.err
    assert sandbox.stacks() == set()
