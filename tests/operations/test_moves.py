"""A stack does not move from one backend to another unseen: a lost settings file would end what runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, desk_in

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


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


@pytest.mark.thorough
def test_a_stack_does_not_move_to_another_backend(desk: Desk) -> None:
    desk.write(PROGRAM)
    desk.symphony("up", "rl", "-y")
    (before,) = desk.trees().values()
    desk.config("rl", **{"symphony:backend": "k8s"})
    for words in (["up", "rl", "-y"], ["plan", "rl"]):
        told = desk.symphony(*words, code=2).err.splitlines()
        assert len(told) == 1
        assert told[0].startswith("symphony: rl runs on tmux and would move to kubernetes (")
        assert told[0].endswith(
            "Pulumi.rl.yaml). Say `symphony:backend: tmux`, or end it first: `symphony delete rl`."
        )
    assert list(desk.trees().values()) == [before]
    desk.symphony("delete", "rl", "-y")
    assert desk.trees() == {}


@pytest.mark.thorough
def test_nor_does_a_script_move_one(desk: Desk) -> None:
    desk.python(SCRIPT.format("tmux"))
    (before,) = desk.trees().values()
    told = desk.python(SCRIPT.format("kube"), code=None)
    assert told.code != 0
    assert "sweep runs on tmux and would move to kubernetes" in told.err
    assert 'Cluster.new("tmux")' in told.err
    assert list(desk.trees().values()) == [before]
    desk.symphony("delete", "sweep", "-y")
    assert desk.trees() == {}
