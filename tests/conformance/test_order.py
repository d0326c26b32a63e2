"""`depends_on` on every backend: waiting, starting in order, blocked by failures, unblocked."""

from __future__ import annotations

import signal

import pytest

from tests.conformance.backend import Backend
from tests.conformance.conftest import BACKENDS

pytestmark = pytest.mark.parametrize("backend", BACKENDS, indirect=True, scope="module")
STACK = "pipe"
PROGRAM = """
call = "import os, urllib.request as u; u.urlopen('http://' + os.environ['SYMPH_WEB_ADDR'])"
with Experiment() as e:
    prepare = e.new_process("prepare", "PREPARE")
    train = e.new_process("train", "sleep 0.5")
    train.depends_on(prepare, condition="completed")
    e.new_process("evaluate", "sleep 1000", depends_on={"train": "completed"})
    server = e.new_process("server", "sleep 2; python3 -m http.server $SYMPH_WEB_PORT --bind $SYMPH_WEB_BIND")
    server.binds("web")
    client = e.new_process("client", f'python3 -c "{call}" && sleep 1000')
    client.connects("web", wait=True)
"""
FAILS, COMPLETES, GOES_ON = (PROGRAM.replace("PREPARE", line) for line in ("exit 3", "true", "sleep 1000"))


@pytest.mark.thorough
def test_a_waiting_process_shows_its_wait_which_survives_a_killed_supervisor(
    backend: Backend, stack: str
) -> None:
    backend.up(stack, GOES_ON)
    status = backend.statuses(stack)["train"]
    assert (status["state"], status["ready"], status["waits_for"]) == (
        "waiting",
        False,
        ["prepare (completed)"],
    )
    assert "prepare" in backend.sandbox.symphony("why", stack, "train").out
    assert "1 waiting" in backend.sandbox.symphony("restart", stack, "train", "-y").out
    backend.end_supervisor(stack)
    backend.kill(stack, "prepare", signal.SIGKILL)
    assert "prepare" in backend.becomes(stack, "train", "blocked")["why"]


def test_dependents_start_when_their_dependencies_are_met_and_are_blocked_by_a_failure(
    backend: Backend, stack: str
) -> None:
    ran = backend.up(stack, FAILS, fails=True)
    assert ran.code == 1
    assert "blocked" in backend.sandbox.symphony("wait", stack, "--for", "evaluate", code=1).out
    assert "prepare" in backend.becomes(stack, "train", "blocked")["why"]
    assert "train" in backend.becomes(stack, "evaluate", "blocked")["why"]
    # The failure is fixed.
    backend.up(stack, COMPLETES)
    backend.sandbox.symphony("wait", stack, "--for", "train", "--timeout", "30s")
    statuses = backend.statuses(stack)
    assert statuses["prepare"]["since"] <= statuses["train"]["since"]
    backend.sandbox.symphony("wait", stack, "--for", "ready", "--timeout", "30s")
    states = {path: status["state"] for path, status in backend.statuses(stack).items()}
    assert {path: state for path, state in states.items() if state != "running"} == {
        "prepare": "completed",
        "train": "completed",
    }
    assert "after a wait of 1 s" in backend.sandbox.symphony("wait", stack, "--timeout", "1s", code=124).out
    before = backend.snapshot(stack)
    backend.sandbox.symphony("restart", stack, "train", "evaluate", "-y")
    backend.becomes(stack, "evaluate", "running")
    backend.becomes(stack, "train", "completed")
    assert backend.snapshot(stack).same(before) >= {"server", "client"}
