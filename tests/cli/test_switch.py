"""`symphony switch`, and which experiment a command without a name selects."""

from __future__ import annotations

import pytest

from tests.sandbox import SYMPHONY, Sandbox
from tests.terminal import terminal

PROGRAM = """
with Experiment() as e:
    e.new_process("p", command="sleep", args=["3600"])
"""


@pytest.mark.thorough
def test_switch_selects_and_delete_batch_deletes_by_pattern(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    for name in ("sweep-1", "sweep-2", "other"):
        sandbox.symphony("up", name, "-y")
    assert "symphony switch" in sandbox.symphony("process", code=2).err
    assert "symphony switch" in sandbox.symphony("switch", code=2).err
    assert sandbox.symphony("switch", "sweep-2").out == "sweep-2\n"
    assert sandbox.symphony("e").out == "sweep-2\n"
    output = sandbox.symphony("exec", "p", "--", "printenv", "SYMPHONY_ID").out
    assert "/sweep-2#" in output
    assert "other" in sandbox.symphony("se", "nothing", code=2).err
    assert "current" in {each.name for each in sandbox.home.iterdir()}
    # Outside of projects, a pattern stands for experiments of every project.
    waited = sandbox.symphony("wait", "sweep-*", "--for", "ready", cwd=sandbox.home.parent).out
    assert [line.partition(":")[0] for line in waited.splitlines()] == ["sweep-1", "sweep-2"]

    assert "without a terminal" in sandbox.symphony("delete-batch", "sweep-*", code=2).err
    assert "zzz-*" in sandbox.symphony("db", "sweep-*", "zzz-*", "-y", code=2).err
    assert len(sandbox.symphony("ls", "--json").json) == 3
    with terminal(sandbox, [str(SYMPHONY), "delete-batch", "sweep-*"]) as screen:
        shown = screen.shows("[y/N]")
        assert "sweep-1  1 process" in shown
        assert "Delete 2 experiments" in shown
        screen.type("n", "Enter")
        assert screen.ends() == 1
    ran = sandbox.symphony("db", "sweep-*", "sweep-1", "-y")
    deleted = [line.split()[1] for line in ran.out.splitlines() if line.startswith("Deleted ")]
    assert sorted(deleted) == ["sweep-1:", "sweep-2:"]
    assert set(sandbox.trees()) == {"other/p"}
    # The selected experiment is deleted: commands select the only one again.
    assert sandbox.symphony("switch").out == "other\n"
    assert "no experiment is up" not in sandbox.symphony("process").err


@pytest.mark.slow
def test_deleted_stacks_and_those_of_other_projects_are_not_selected_without_full_name(
    sandbox: Sandbox,
) -> None:
    sandbox.write(PROGRAM)
    for command in ("up", "delete"):
        sandbox.symphony(command, "rl", "-y")
    script = 'from symphony import *\ne = Experiment("joy-rl")\ne.new_process("p", command="sleep 3600")\n'
    sandbox.python(f'{script}Cluster.new("tmux").launch(e)', cwd=sandbox.home.parent)
    assert sandbox.symphony("switch", cwd=sandbox.home.parent).out == "joy-rl\n"
    assert "rl is not up" in sandbox.symphony("switch", "rl", code=2).err
    for goal in ((), ("--for", "ready"), ("--for", "a")):
        assert "rl is not up" in sandbox.symphony("wait", "rl", *goal, code=2).err
    sandbox.symphony("up", "mine", "-y")
    assert sandbox.symphony("switch").out == "mine\n"
    assert sandbox.symphony("switch", cwd=sandbox.home.parent).out == "joy-rl\n"
