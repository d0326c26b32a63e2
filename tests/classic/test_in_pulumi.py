"""Classic programs in a Pulumi project: `cluster.launch` registers the experiment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, sandbox_in

PROGRAM = """
from symphony.engine import Cluster
cluster = Cluster.new("{}")
exp = cluster.new_experiment("rl")
exp.new_process("a", cmds=["sleep 3600"]).binds("data")
exp.new_process_group("g").new_process("b", cmds=["sleep 3600"]).connects("data")
cluster.launch(exp)
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path) as made:
        made.write(PROGRAM.format("tmux"))
        yield made


@pytest.mark.thorough
def test_plan_starts_nothing_up_starts_and_delete_ends_a_classic_program(sandbox: Sandbox) -> None:
    assert "2 to start." in sandbox.symphony("plan", "rl").out
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
    sandbox.symphony("up", "rl", "-y")
    before = sandbox.trees()
    assert set(before) == {"rl/a", "rl/g/b"}
    # Without a setting of the stack, the type of the cluster decides; it does not move a running stack.
    sandbox.write(PROGRAM.format("kube"))
    moved = sandbox.symphony("up", "rl", "-y", code=2)
    assert "rl runs on tmux and would move to kubernetes" in moved.err
    assert len(moved.err.splitlines()) == 1
    # A setting of the stack overrides it.
    sandbox.config("rl", backend="tmux")
    output = sandbox.symphony("plan", "rl").out
    assert "symphony:backend of rl is tmux, so the program's Cluster for kubernetes is ignored" in output
    assert "Nothing changes" in output
    assert sandbox.trees() == before
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_plain_pulumi_previews_starts_and_destroys_a_classic_program(sandbox: Sandbox) -> None:
    sandbox.pulumi("stack", "init", "rl")
    sandbox.pulumi("preview", "--stack", "rl")
    assert sandbox.trees() == {}
    sandbox.pulumi("up", "--stack", "rl", "--yes", "--skip-preview")
    assert set(sandbox.trees()) == {"rl/a", "rl/g/b"}
    sandbox.pulumi("destroy", "--stack", "rl", "--yes", "--skip-preview")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_calls_that_cannot_work_in_a_pulumi_program_are_one_line_errors(sandbox: Sandbox) -> None:
    for call, message in (
        ("cluster.delete('rl')", "a Pulumi program cannot call delete()"),
        ("cluster.launch(exp, dry_run=True)", "a Pulumi program cannot launch with dry_run=True"),
    ):
        sandbox.write(PROGRAM.format("tmux").replace("cluster.launch(exp)", call))
        refused = sandbox.symphony("plan", "rl", code=2)
        assert message in refused.err
        assert "__main__.py:8" in refused.err
    assert sandbox.trees() == {}


IMPATIENT = """
from symphony import KubeCluster
cluster = KubeCluster(patience=1)
exp = cluster.new_experiment("rl")
exp.new_process("a", cmds=["sleep 3600"]).readiness_probe(exec=["false"])
cluster.launch(exp)
"""


@pytest.mark.thorough
def test_up_waits_no_longer_than_the_patience_of_the_programs_cluster(sandbox: Sandbox) -> None:
    sandbox.config("rl", backend="tmux")
    sandbox.write(IMPATIENT)
    assert "1 not ready" in sandbox.symphony("up", "rl", "-y", code=None).out
