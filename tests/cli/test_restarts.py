"""Restart policies on tmux with the commands: followed logs, changed policies."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

pytestmark = pytest.mark.thorough

PROGRAM = """
SCRIPT = "echo try >>{0}; [ $(wc -l <{0}) -lt 3 ] && exit 7; echo came through; exit {1}"
with Experiment() as e:
    e.new_process("flaky", cmds=[SCRIPT.format("flaky.txt", 0)]).restart_policy("OnFailure")
    e.new_process("once", cmds=["exit 5"]).restart_policy("Never")
    again = e.new_process_group("again")
    again.restart_policy("Always")
    again.new_process("good", command=["true"])
    again.new_process("bad", cmds=["echo the last word; kill -SEGV $$"])
"""


def test_follow_continues_over_restarts(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM.replace("exit 7", "echo gone wrong && exit 7"))
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
