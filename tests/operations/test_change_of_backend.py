"""A running stack does not move to another backend, for instance because its settings file was lost."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

PROGRAM = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
"""
SCRIPT = """
import sys
from symphony import Cluster
from symphony.errors import UserError

cluster = Cluster.new("{}")
experiment = cluster.new_experiment("sweep")
experiment.new_process("a", command=["sleep", "3600"])
try:
    cluster.launch(experiment, force=True)
except UserError as error:
    sys.exit(error.line)
"""


@pytest.mark.thorough
def test_up_refuses_to_move_a_running_stack_to_another_backend(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    (before,) = sandbox.trees().values()
    sandbox.config("rl", **{"symphony:backend": "k8s"})
    for words in (["up", "rl", "-y"], ["plan", "rl"]):
        output = sandbox.symphony(*words, code=2).err.splitlines()
        assert len(output) == 1
        assert output[0].startswith("symphony: rl runs on tmux and would move to kubernetes (")
        assert output[0].endswith(
            "Pulumi.rl.yaml). Set `symphony:backend: tmux`, or run `symphony delete rl` first."
        )
    assert list(sandbox.trees().values()) == [before]
    sandbox.symphony("delete", "rl", "-y")
    assert sandbox.trees() == {}


@pytest.mark.thorough
def test_a_script_cannot_move_a_running_stack_to_another_backend(sandbox: Sandbox) -> None:
    sandbox.python(SCRIPT.format("tmux"))
    (before,) = sandbox.trees().values()
    result = sandbox.python(SCRIPT.format("kube"), code=None)
    assert result.code != 0
    assert "sweep runs on tmux and would move to kubernetes" in result.err
    assert 'Cluster.new("tmux")' in result.err
    assert list(sandbox.trees().values()) == [before]
    sandbox.symphony("delete", "sweep", "-y")
    assert sandbox.trees() == {}
