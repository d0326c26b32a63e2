"""The inputs of the tmux resources rendered from a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from symphony import Experiment
from symphony.backends.tmux import expand
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan

LIMITS = BackendLimits(
    backend="tmux",
    physical_name="rl-x",
    starts="command",
    supports=frozenset(),
    one_host=True,
    host_of="127.0.0.1",
    bind_host="127.0.0.1",
    ports={"replay": 7000},
)


@pytest.fixture
def rendered() -> dict[str, Any]:
    experiment = Experiment("rl", preamble_cmds=["cd x"], env={"A": 1}, inherit="WANDB_*", secrets=["~/.key"])
    group = experiment.new_process_group("g")
    group.new_process("a", ["echo 1", "echo 2"], command="never", env={"B": 2}).binds("replay")
    experiment.new_process("b", command="python -u", args=["b.py", 1], preamble_cmds="y").connects("replay")
    plan = build_plan(experiment.spec, LIMITS)
    session = expand.session_inputs(plan, "test/rl.x#12345678", "default", 5.0)
    windows = {
        each.path: expand.window_inputs(plan, each, session, "/work", "/project", Path("/home/rl"))
        for each in plan.processes
    }
    return {"session": session, **windows}


def test_inputs_of_session_and_windows(rendered, snapshot):
    assert rendered == snapshot


def test_without_secrets_no_process_gets_a_folder_of_secrets():
    experiment = Experiment("rl")
    experiment.new_process("a", ["x"])
    plan = build_plan(experiment.spec, LIMITS)
    session = expand.session_inputs(plan, "o", "default", 5.0)
    assert (
        "SYMPH_SECRETS_DIR"
        not in expand.window_inputs(plan, plan.processes[0], session, "/", "/", Path("/"))["env"]
    )
