"""Equal workers: `new_process(replicas=, rendezvous=True)` and the variables of each worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symphony.components.experiment import Experiment
from symphony.errors import UserError
from symphony.plan.build import build_plan
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.serialize import from_dict, to_dict

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TMUX = Target(
    backend="tmux",
    physical_name="rl",
    starts="command",
    supports=frozenset({"command", "args", "resource_limit"}),
    one_host=True,
    host_of="127.0.0.1",
    bind_host="127.0.0.1",
    ports={"train-rendezvous": 7001},
    gpus=4,
)
PODS = replace(
    TMUX, backend="kubernetes", one_host=False, host_of="{service}.rl", bind_host="0.0.0.0", gpus=None
)


def three_workers() -> ExperimentSpec:
    experiment = Experiment("rl")
    made = experiment.new_process("train", command="python train.py", replicas=3, rendezvous=True)
    assert [process.name for process in made] == ["train-0", "train-1", "train-2"]
    return experiment.spec


def variables(spec: ExperimentSpec, target: Target) -> list[list[str | None]]:
    plan = build_plan(spec, target)
    return [[process.service_env.get(name) for name in NAMES] for process in plan.processes]


def test_worker_variables_on_one_machine() -> None:
    assert variables(three_workers(), TMUX) == [
        [str(rank), str(rank), "3", "127.0.0.1", "7001"] for rank in range(3)
    ]


def test_workers_with_their_own_gpu_have_local_rank_0() -> None:
    spec = three_workers()
    gpus = tuple(replace(each, resource_limit=replace(each.resource_limit, gpu=1)) for each in spec.processes)
    assert [row[1] for row in variables(replace(spec, processes=gpus), TMUX)] == ["0", "0", "0"]


def test_worker_variables_in_pods() -> None:
    assert variables(three_workers(), PODS) == [
        [str(rank), "0", "3", "train-rendezvous.rl", "7001"] for rank in range(3)
    ]


def test_rank_0_binds_the_rendezvous_and_others_connect_to_it() -> None:
    first, *others = build_plan(three_workers(), TMUX).processes
    assert first.binds == ("train-rendezvous",)
    assert {each.connects for each in others} == {("train-rendezvous",)}


def test_rendezvous_survives_saving() -> None:
    spec = three_workers()
    assert from_dict(to_dict(spec)).processes[1].rendezvous == spec.processes[1].rendezvous


def test_replicas_without_rendezvous_are_plain_processes() -> None:
    experiment = Experiment("rl")
    experiment.new_process("agent", command="python agent.py", replicas=2)
    assert variables(experiment.spec, TMUX) == [[None] * 5] * 2


@pytest.mark.parametrize(
    "options", [{"replicas": 0}, {"replicas": True}, {"replicas": "4"}, {"rendezvous": True}]
)
def test_invalid_replicas_or_rendezvous_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UserError):
        Experiment("rl").new_process("train", command="ls", **options)  # pyright: ignore[reportCallIssue, reportArgumentType]
