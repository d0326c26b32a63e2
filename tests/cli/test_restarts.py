"""Restarts on tmux with the commands: followed logs, `symphony restart`."""

from __future__ import annotations

import pytest

from tests.sandbox import SYMPHONY, Sandbox

pytestmark = pytest.mark.thorough

PROGRAM = """
SCRIPT = "echo try >>tries; [ $(wc -l <tries) -lt 3 ] && echo gone wrong && exit 7; echo came through"
with Experiment() as e:
    e.new_process("flaky", cmds=[SCRIPT], restart_policy="OnFailure")
"""


def test_follow_continues_over_restarts(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y", code=None)
    followed = sandbox.symphony("logs", "rl", "flaky", "-f").out
    assert followed.count("gone wrong") == 2
    assert followed.count("came through") == 1
    sandbox.symphony("delete", "rl", "-y")


def test_logs_and_wait_go_on_over_a_restart_by_another_command(sandbox: Sandbox) -> None:
    sandbox.write(
        'with Experiment() as e: e.new_process("a", cmds=["echo begin; sleep 3600 & wait"])',
    )
    sandbox.symphony("up", "rl", "-y")
    commands = (["logs", "rl", "a", "-f"], ["wait", "rl"])
    logs, waiting = (sandbox.start([str(SYMPHONY), *words]) for words in commands)
    sandbox.symphony("restart", "rl", "-y")
    sandbox.write('with Experiment() as e: e.new_process("a", cmds=["echo end"])')
    sandbox.symphony("up", "rl", "-y")
    output, error = waiting.communicate(timeout=30)
    assert (waiting.returncode, "completed" in output) == (0, True), error
    output, error = logs.communicate(timeout=30)
    assert logs.returncode == 0, error
    assert output.count("begin") == 2
    assert "end" in output.splitlines()
    assert output.splitlines()[-1] == "ended: exit 0"


def test_restart_works_in_a_project_with_only_a_stacks_folder(sandbox: Sandbox) -> None:
    (sandbox.folder / "__main__.py").unlink(missing_ok=True)
    (sandbox.folder / "stacks").mkdir()
    sandbox.write(
        'with Experiment() as e: e.new_process("a", command=["sleep", "3600"])', file="stacks/rl.py"
    )
    sandbox.symphony("up", "rl", "-y")
    before = sandbox.trees()
    sandbox.symphony("restart", "rl", "-y")
    assert before["rl/a"] != sandbox.trees()["rl/a"]
