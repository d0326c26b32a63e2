"""`symphony why`: the chain of steps from declaration to the current state, and a remedy."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sandbox import SYMPHONY, Sandbox, sandbox_in, wait_for
from tests.terminal import terminal

REASON = " ".join(["the reason"] * 12)
PROGRAM = f"""
with Experiment() as e:
    e.new_process("fine", command=["sleep", "3600"])
    e.new_process("bad", command=["sh", "-c", "echo first; echo {REASON}; exit 3"])
    e.new_process("none", cmds=["no-such-command-anywhere"])
    e.new_process("done", command=["true"])
    e.new_process_group("pool").new_process("w", command=["sleep", "3600"])
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Start the experiment rl, and wait until its short processes have ended."""
    with sandbox_in(tmp_path_factory.mktemp("why")) as made:
        assert "no experiment" in made.symphony("why", "x", code=2).err
        made.write(PROGRAM)
        made.symphony("up", "rl", "-y", code=None)
        wait_for(lambda: made.processes("rl")["none"]["state"] == "failed", 20, "process none has failed")
        yield made


def steps(sandbox: Sandbox, *words: str) -> dict[str, dict[str, Any]]:
    return {each["step"]: each for each in sandbox.symphony("why", *words, "--json").json["links"]}


@pytest.mark.thorough
def test_why_chain_of_running_completed_failed_and_missing_processes(up: Sandbox) -> None:
    out = up.symphony("why", "fine").out
    assert "__main__.py:4" in out.splitlines()[0]
    assert [line.split()[0] for line in out.splitlines()] == ["declared", "planned", "started", "ready"]
    assert "<- here" not in out

    result = steps(up, "rl", "bad")
    assert list(result) == ["declared", "planned", "started", "exit"]
    assert (result["exit"]["what"], result["exit"]["more"]) == ("exit 3", ["first", REASON])
    assert "symphony logs rl bad" in result["exit"]["remedy"]
    out = up.symphony("why", "rl", "bad").out
    assert "exit 3" in next(line for line in out.splitlines() if "<- here" in line)
    assert out.index("<- here") < out.index("| the reason") < out.index("symphony up rl")

    assert "the command was not found" in steps(up, "rl", "none")["exit"]["what"]
    assert steps(up, "rl", "done")["exit"]["what"] == "exit 0"
    assert not steps(up, "rl", "done")["exit"]["broken"]
    assert "pool/w" in steps(up, "rl", "w")["started"]["what"]


@pytest.mark.thorough
def test_why_names_a_killed_process_a_closed_window_and_a_lost_tmux_server(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y", code=None)
    os.kill(sandbox.trees()["rl/fine"][0], signal.SIGKILL)
    wait_for(lambda: sandbox.processes("rl")["fine"]["state"] == "failed", 20, "fine has failed")
    ended = steps(sandbox, "rl", "fine")["exit"]
    assert "SIGKILL" in ended["what"]
    assert "out of memory" in ended["remedy"]

    next(window for window in sandbox.tmux().windows if window.window_name == "pool:w").kill()
    wait_for(lambda: sandbox.processes("rl")["pool/w"]["state"] == "lost", 20, "w is lost")
    lost = steps(sandbox, "rl", "pool/w")["lost"]
    assert lost["what"].startswith("its window is gone: it was closed")
    assert "symphony up rl" in lost["remedy"]

    for pid in sandbox.servers():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not sandbox.servers(), 10, "the server is gone")
    assert steps(sandbox, "rl", "pool/w")["lost"]["what"].startswith("the tmux server is gone")


def test_why_wraps_and_colours_on_a_terminal(up: Sandbox) -> None:
    with terminal(up, [str(SYMPHONY), "why", "bad"], columns=60, rows=40) as seen:
        assert seen.ends() == 0
        screen = seen.history()
        assert "<- here" in screen
        lines = [line for line in screen.splitlines() if not line.startswith("Pane is dead")]
        assert max(map(len, lines)) <= 60
        assert [line.split()[0] for line in lines if line[:1].strip()] == [
            "declared",
            "planned",
            "started",
            "exit",
        ]
        assert "\x1b[" in seen.colours()
