"""Restarts on tmux with the commands: followed logs, `symphony restart`."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

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
