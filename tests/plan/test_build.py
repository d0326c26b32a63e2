"""Building a plan: defaults, variables, addresses; independent of the order of declaration."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symphony import Experiment
from symphony.plan.build import build_plan
from symphony.plan.plan import Plan
from symphony.plan.problems import PlanError
from symphony.spec.experiment import ExperimentSpec
from tests.plans import shown

RL = """
    exp = Experiment("rl", preamble_cmds=["export OMP_NUM_THREADS=1"], env={"SEED": 7, "LR": 1e-3})
    group = exp.new_process_group("workers", env={"LR": 3e-4}, start_dir="/data", preamble_cmds="cd sub")
    worker = group.new_process("a", command="python -u worker.py", args=["--n", 4], env={"SEED": 8})
    worker.connects("replay-server")
    worker.mount_nfs("nas", "/data", "/data")
    learner = exp.new_process("learner", ["python learner.py"], image="rl:latest")
    learner.binds("replay-server")
    learner.exposes({"tensorboard": 6006})
    learner.resource_limit(gpu=1)
"""


def test_plan_of_both_backends(planned, kubernetes, snapshot):
    assert _as_json(planned(RL)) == snapshot(name="tmux")
    assert _as_json(planned(RL, kubernetes, defaults={"image": "d"})) == snapshot(name="kubernetes")


def _as_json(plan: Plan) -> str:
    return json.dumps(shown(plan), indent=2, sort_keys=True)


def variables(plan, path):
    return {**plan.service_env, **plan.process(path).service_env}


def test_addresses_of_a_process(planned):
    plan = planned(RL)
    assert plan.addresses("learner")["tensorboard"] == "127.0.0.1:6006"
    assert plan.addresses("workers/a") == {}


def shuffled(spec: ExperimentSpec, seed: int) -> ExperimentSpec:
    order = random.Random(seed)

    def mixed(things):
        return tuple(order.sample(things, len(things)))

    processes = [
        dataclasses.replace(p, binds=mixed(p.binds), connects=mixed(p.connects))
        for p in mixed(spec.processes)
    ]
    groups = [dataclasses.replace(g, processes=mixed(g.processes)) for g in mixed(spec.groups)]
    return dataclasses.replace(spec, processes=tuple(processes), groups=tuple(groups))


names = st.lists(
    st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True), min_size=1, max_size=8, unique=True
)


@settings(max_examples=25)
@given(names, names, st.randoms(use_true_random=False), st.integers())
def test_addresses_do_not_depend_on_the_order_of_declaration(tmux, processes, services, chance, seed):
    experiment = Experiment("rl")
    group = experiment.new_process_group("of-its-own-name")
    made = [(experiment if chance.random() < 0.7 else group).new_process(name, ["x"]) for name in processes]
    for service in services:
        chance.choice(made).binds({service: None})
        chance.choice(made).connects(service)
    if not group.list_processes():
        group.new_process("a", ["x"])
    spec = experiment.spec
    assert build_plan(spec, tmux) == build_plan(spec, tmux)
    before, after = build_plan(spec, tmux), build_plan(shuffled(spec, seed), tmux)
    assert set(before.services) == set(after.services)
    for process in before.processes:
        assert variables(after, process.path) == variables(before, process.path)
        assert after.process(process.path).env == process.env


MISTAKES = """
    exp = Experiment("rl")
    learner = exp.new_process("learner", command="python")
    learner.binds("replay")
    agent = exp.new_process("agent", command="")
    agent.connects("replya")
    agent.set_env("A B", 1)
    exp.new_process("agent", ["x"])
    exp.new_process("Bad Name")
"""


def test_the_error_has_every_problem_in_the_order_of_the_program(declare, tmux):
    spec, _ = declare(MISTAKES)
    with pytest.raises(PlanError) as raised:
        build_plan(spec, tmux)
    gathered = raised.value.problems
    words = ("twice", "no command", '"replya"', '"A B"', '"Bad Name"', "no command")
    assert [word for word, problem in zip(words, gathered, strict=True) if word not in problem.what] == []
    lines = [problem.where[0].line for problem in gathered]
    assert lines == sorted(lines)
    assert raised.value.exit_code == 2
