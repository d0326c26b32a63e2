"""Equal workers: `new_process(replicas=, rendezvous=True)` and the variables of each worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symphony.components.experiment import Experiment
from symphony.errors import UserError
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.spec.experiment import ExperimentSpec

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def one_machine(tmux: BackendLimits) -> BackendLimits:
    return replace(tmux, ports={"train-rendezvous": 7001}, gpus=4)


@pytest.fixture
def pods(kubernetes: BackendLimits) -> BackendLimits:
    return replace(kubernetes, ports={"train-rendezvous": 7001}, defaults={"image": "i"})


def three_workers() -> ExperimentSpec:
    experiment = Experiment("rl")
    made = experiment.new_process("train", command="python train.py", replicas=3, rendezvous=True)
    assert [process.name for process in made] == ["train-0", "train-1", "train-2"]
    return experiment.spec


def variables(spec: ExperimentSpec, limits: BackendLimits) -> list[list[str | None]]:
    plan = build_plan(spec, limits)
    return [[process.service_env.get(name) for name in NAMES] for process in plan.processes]


def test_worker_variables_on_one_machine(one_machine: BackendLimits) -> None:
    assert variables(three_workers(), one_machine) == [
        [str(rank), str(rank), "3", "127.0.0.1", "7001"] for rank in range(3)
    ]


def test_workers_with_their_own_gpu_have_local_rank_0(one_machine: BackendLimits) -> None:
    spec = three_workers()
    gpus = tuple(replace(each, resource_limit=replace(each.resource_limit, gpu=1)) for each in spec.processes)
    assert [row[1] for row in variables(replace(spec, processes=gpus), one_machine)] == ["0", "0", "0"]


def test_worker_variables_in_pods(pods: BackendLimits) -> None:
    assert variables(three_workers(), pods) == [
        [str(rank), "0", "3", "train-rendezvous.rl.svc", "7001"] for rank in range(3)
    ]


def test_rank_0_binds_the_rendezvous_and_others_connect_to_it(one_machine: BackendLimits) -> None:
    first, *others = build_plan(three_workers(), one_machine).processes
    assert first.binds == ("train-rendezvous",)
    assert {each.connects for each in others} == {("train-rendezvous",)}


def test_replicas_without_rendezvous_are_plain_processes(one_machine: BackendLimits) -> None:
    experiment = Experiment("rl")
    experiment.new_process("agent", command="python agent.py", replicas=2)
    assert variables(experiment.spec, one_machine) == [[None] * 5] * 2


@pytest.mark.parametrize(
    "options", [{"replicas": 0}, {"replicas": True}, {"replicas": "4"}, {"rendezvous": True}]
)
def test_invalid_replicas_or_rendezvous_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UserError):
        Experiment("rl").new_process("train", command="ls", **options)  # pyright: ignore[reportCallIssue, reportArgumentType]
