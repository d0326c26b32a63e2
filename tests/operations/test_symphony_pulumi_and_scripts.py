"""`symphony up`, plain `pulumi` and a plain script work on the same stack."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

PROGRAM = """
with Experiment("rl") as e:
    e.new_process("server", command=["sleep", "3600"]).binds("greetings")
    e.new_process("guest", command=["sleep", "%s"]).connects("greetings")
"""
SCRIPT = """
from symphony import Cluster
cluster = Cluster.new("tmux")
e = cluster.new_experiment("rl")
e.new_process("server", command=["sleep", "3600"]).binds("greetings")
e.new_process("guest", command=["sleep", "%s"]).connects("greetings")
"""
BOTH = {"rl/server", "rl/guest"}


@pytest.mark.thorough
def test_symphony_creates_pulumi_and_a_script_change_pulumi_deletes(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM % 1001)
    sandbox.symphony("up", "rl", "-y")
    made = sandbox.trees()
    assert set(made) == BOTH

    tree = sandbox.pulumi("stack", "--stack=rl").out
    for word in ("symphony:index:Experiment", "symphony:index:Process", "server", "guest"):
        assert word in tree
    refreshed = sandbox.pulumi("refresh", "--stack=rl", "--yes", "--skip-preview").out
    # The stack, the experiment, its session, and two processes with one window each.
    assert "7 unchanged" in " ".join(refreshed.split())
    sandbox.pulumi("up", "--stack=rl", "--yes", "--skip-preview", "--expect-no-changes")
    assert sandbox.trees() == made

    sandbox.write(PROGRAM % 1002)
    sandbox.pulumi("up", "--stack=rl", "--yes", "--skip-preview")
    changed = sandbox.trees()
    assert changed["rl/server"] == made["rl/server"]
    assert changed["rl/guest"] != made["rl/guest"]

    look = "print(cluster.list_experiments(), cluster.describe_experiment('rl'))\n"
    seen = sandbox.python(SCRIPT % 1003 + look + "cluster.launch(e, force=True)").out
    assert "['rl']" in seen
    assert "running" in seen
    third = sandbox.trees()
    assert third["rl/server"] == made["rl/server"]
    assert third["rl/guest"] != changed["rl/guest"]

    sandbox.pulumi("destroy", "--stack=rl", "--yes", "--skip-preview")
    assert sandbox.trees() == {}
    assert sandbox.servers() == []
    assert sandbox.symphony("ls", "--json").json == []


@pytest.mark.thorough
def test_up_creates_a_missing_stack_and_keeps_other_outputs(sandbox: Sandbox) -> None:
    """The stack is created if missing, and other outputs stay."""
    sandbox.write(
        "import pulumi\n"
        + PROGRAM % 1001
        + "pulumi.export('where', e.addresses['greetings'])\npulumi.export('session', e.session)"
    )
    assert sandbox.stacks() == set()
    sandbox.symphony("up", "rl.long-run", "-y")
    assert sandbox.stacks() == {"sandbox/rl.long-run"}
    outputs = sandbox.pulumi("stack", "output", "--stack=rl.long-run", "--json").json
    assert outputs["session"] == "rl-long-run"
    assert outputs["where"].startswith("127.0.0.1:")
    assert set(sandbox.trees()) == {"rl.long-run/server", "rl.long-run/guest"}


IN_A_COMPONENT = """
import pulumi
class Lab(pulumi.ComponentResource):
    def __init__(self): super().__init__("my:index:Lab", "lab")
opts = pulumi.ResourceOptions(parent=Lab())
with Experiment("rl", opts=opts) as e:
    e.new_process("server", command=["sleep", "3600"])
"""


def test_an_experiment_keeps_running_when_it_gets_or_loses_a_parent(sandbox: Sandbox) -> None:
    alone = IN_A_COMPONENT.replace(", opts=opts", "")
    sandbox.write(alone)
    sandbox.symphony("up", "rl", "-y")
    made = sandbox.trees()
    for program in (IN_A_COMPONENT, alone):
        sandbox.write(program)
        sandbox.symphony("up", "rl", "-y")
        assert sandbox.trees() == made
