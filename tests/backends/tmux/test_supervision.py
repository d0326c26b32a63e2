"""Processes in tmux that bind, wait or restart together: readiness, starts and ends, on real processes."""

from __future__ import annotations

import json
import random
import signal
import socket
from typing import Any

import pytest

from tests.sandbox import Sandbox, wait_for

SERVE = "python3 -m http.server $SYMPH_WEB_PORT --bind $SYMPH_WEB_BIND"


def _becomes(sandbox: Sandbox, path: str, state: str, stack: str = "rl") -> dict[str, Any]:
    wait_for(lambda: sandbox.processes(stack)[path]["state"] == state, 30, f"{path} is {state}")
    return sandbox.processes(stack)[path]


@pytest.mark.thorough
def test_a_binding_process_is_ready_only_when_its_own_processes_listen(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
    sandbox.write(
        "with Experiment() as e:\n"
        f'    late = e.new_process("late", "while ! [ -e go ]; do sleep 0.1; done; {SERVE}")\n'
        f'    late.binds({{"web": {port}}})\n'
        '    e.new_process("other", "sleep 1000")'
    )
    ran = sandbox.symphony("up", "rl", "-y")
    assert f"port {port}: not listening yet" in ran.out
    assert "1 not ready" in ran.out
    with socket.create_server(("127.0.0.1", port)):
        status = sandbox.processes("rl")["late"]
        assert (status["state"], status["ready"]) == ("running", False)
        assert f"port {port}: in use by another program (python" in status["why"]
    (sandbox.folder / "go").touch()
    wait_for(lambda: sandbox.processes("rl")["late"]["ready"], 30, "it listens")
    assert sandbox.supervisor("rl") is None, "this declaration asks for none"


@pytest.mark.thorough
def test_a_process_that_waits_says_that_the_window_which_starts_it_was_closed(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment() as e:\n"
        '    prepare = e.new_process("prepare", "while ! [ -e go ]; do sleep 0.1; done")\n'
        '    e.new_process("train", "echo").depends_on(prepare, condition="completed")'
    )
    sandbox.symphony("up", "rl", "-y")
    assert sandbox.processes("rl")["train"]["why"] == "for prepare (completed)"
    supervisor = sandbox.supervisor("rl")
    assert supervisor is not None
    pid = str(supervisor.ppid())
    next(pane for pane in sandbox.tmux().panes if pane.pane_pid == pid).window.kill()
    wait_for(lambda: "`symphony up`" in sandbox.processes("rl")["train"]["why"], 10, "it says so")
    (sandbox.folder / "go").touch()
    sandbox.symphony("up", "rl", "-y")
    _becomes(sandbox, "train", "completed")


@pytest.mark.thorough
def test_equal_workers_restart_with_one_that_a_user_restarts(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment() as e:\n"
        '    e.new_process("train", "echo rank $RANK at $MASTER_PORT; sleep 1000", replicas=3,\n'
        "        rendezvous=True)\n"
        '    e.new_process("other", "sleep 1000")'
    )
    sandbox.symphony("up", "rl", "-y")
    before = {path: status["pid"] for path, status in sandbox.processes("rl").items()}
    sandbox.symphony("restart", "rl", "train-1", "-y")

    def all_are_new() -> bool:
        now = {path: status["pid"] for path, status in sandbox.processes("rl").items()}
        return {path for path, pid in now.items() if pid not in (None, before[path])} == {*before} - {"other"}

    wait_for(all_are_new, 40, "all workers started again")
    logs = sandbox.symphony("logs", "rl", "train-0").out
    assert logs.count("rank 0 at") == 2
    assert len({line.split()[-1] for line in logs.splitlines() if "rank 0" in line}) == 1, (
        "the port is theirs"
    )


@pytest.mark.thorough
def test_up_starts_all_equal_workers_again_when_some_have_failed(sandbox: Sandbox) -> None:
    """One had completed; the others, when started again, once waited for it for ever."""
    sandbox.write(
        "with Experiment() as e:\n"
        '    e.new_process("train", "echo rank $RANK; sleep 0.5; [ $RANK = 1 ] || test -e repaired",\n'
        "        replicas=3, rendezvous=True)"
    )
    sandbox.symphony("up", "rl", "-y", code=None)

    def states() -> list[str]:
        return [status["state"] for status in sandbox.processes("rl").values()]

    wait_for(lambda: states() == ["failed", "completed", "failed"], 20, "they have ended")
    (sandbox.folder / "repaired").touch()
    planned = json.loads(sandbox.symphony("plan", "rl", "--json").out)["changes"]
    assert [row["kind"] for row in planned] == ["restart"] * 3
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: states() == ["completed"] * 3, 20, "all have completed")
    assert sandbox.symphony("logs", "rl", "train-1").out.count("rank 1") == 2


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(6, marks=pytest.mark.thorough),
        pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(3000)]),
    ],
)
def test_delete_restart_and_kill_during_pending_waits_leave_no_process_stuck(
    sandbox: Sandbox, rounds: int
) -> None:
    chance = random.Random(rounds)
    # Processes that wait for the end of p0 still do when the next command runs.
    program = "with Experiment() as e:\n    e.new_process('p0', 'sleep 8')\n"
    for i in range(1, 6):
        other = chance.randrange(i)
        condition = chance.choice(["started", "ready"]) if other else "completed"
        program += (
            f"    e.new_process('p{i}', 'sleep 1000').depends_on('p{other}', condition='{condition}')\n"
        )
    sandbox.write(program)
    for _ in range(rounds):
        sandbox.symphony("up", "rl", "-y")
        action = chance.random()
        if action < 0.4:
            sandbox.symphony("delete", "rl", "-y")
        elif action < 0.8:
            sandbox.symphony("restart", "rl", f"p{chance.randrange(6)}", "-y")
        elif (supervisor := sandbox.supervisor("rl")) is not None:
            supervisor.send_signal(signal.SIGKILL)
    sandbox.symphony("up", "rl", "-y")
    sandbox.symphony("wait", "rl", "--for", "ready", "--timeout", "60s")
