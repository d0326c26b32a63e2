"""Generated node pools, with experiments that fit on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from symphony import Experiment, NodePool
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.planner import total_of
from symphony.placement.pool import Amounts, Pool, available
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.plan.place import Places, place
from symphony.spec.experiment import ExperimentSpec
from tests.placement.fleet import holds

FAKE = ("kwok.x-k8s.io/node", "fake", "NoSchedule")
_MACHINES = (
    "e2-standard-2",
    "e2-standard-4",
    "e2-standard-8",
    "n1-standard-4",
    "n1-highmem-8",
    "n2-standard-16",
)
_GPUS = (("n1-standard-8", "nvidia-tesla-v100", 1), ("n1-standard-8", "nvidia-tesla-t4", 2),
         ("n1-standard-16", "nvidia-tesla-t4", 4), ("g2-standard-24", "nvidia-l4", 2))  # fmt: skip


@dataclass
class Fleet:
    """Node pools, and an experiment all of whose processes fit."""

    name: str
    pools: tuple[Pool, ...]
    experiment: Experiment
    limits: BackendLimits
    placed: Places

    @property
    def spec(self) -> ExperimentSpec:
        return self.experiment.spec


def fleet(seed: int) -> Fleet:
    """Return a fleet of one to six pools and one to sixty processes, without those that fit nowhere."""
    chance = random.Random(seed)
    name = f"f{seed}"
    pools = tuple(_pool(chance, f"{name}-{number}").pool for number in range(chance.randint(1, 6)))
    calls = [_call(chance, pools) for _ in range(chance.randint(1, 60))]
    kept = range(len(calls))
    while True:
        experiment = _experiment(name, calls, kept)
        spec = experiment.spec
        where = replace(expand.offline_limits(spec, Settings(image="none:1"), name), pools=pools)
        result = place(spec, where)
        names = {problem.what.partition(" ")[0] for problem in result.problems}
        left = {each for each in names if each.startswith("p-")}
        if not left:
            return Fleet(name, pools, experiment, where, result)
        kept = [number for number in kept if f"p-{number}" not in left]


def _pool(chance: random.Random, name: str) -> NodePool:
    machine, accelerator = chance.choice(_MACHINES), None
    if chance.random() < 0.3:
        machine, *gpus = chance.choice(_GPUS)
        accelerator = (str(gpus[0]), int(str(gpus[1])))
    taints = [FAKE, *([("team", "rl", "NoExecute")] if chance.random() < 0.2 else [])]
    spot = chance.random() < 0.25
    return NodePool(name, machine, accelerator, max=chance.randint(1, 3), spot=spot, taints=taints)


def _call(chance: random.Random, pools: Sequence[Pool]) -> dict[str, Any]:
    """Return the arguments of place() for a process."""
    kind, pool = chance.random(), chance.choice(pools)
    if kind < 0.35:
        parts = chance.choice([each for each in (1, 2, 3, 4) if not pool.gpus % each])
        return {"pool": pool.name, "per_machine": parts}
    if kind < 0.5 and pool.gpus:
        return {"gpu": chance.randint(1, pool.gpus), "gpu_type": pool.gpu_type, "spot": pool.spot}
    cpu, gib = chance.choice((0.25, 0.5, 1, 1.5, 3)), chance.choice((0.5, 1, 2, 3.5))
    return {"cpu": cpu, "memory": f"{int(gib * 1024)}Mi", "spot": chance.random() < 0.5}


def _experiment(name: str, calls: Sequence[dict[str, Any]], kept: Sequence[int]) -> Experiment:
    experiment = Experiment(name)
    for number in kept:
        process = experiment.new_process(f"p-{number}", command="sleep")
        process.add_toleration(FAKE[0], "Equal", FAKE[1], FAKE[2])
        process.place(**calls[number])
    return experiment


def pods(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return the manifests of the experiment's pods, by their names in the plan."""
    plan = build_plan(fleet.spec, fleet.limits)
    every = render.render(plan, Settings(image="none:1"), f"test/{fleet.name}#0")
    return {name: pod for name, (_, pod) in every.pods.items()}


def find_packing(fleet: Fleet) -> dict[str, str]:
    """Return pod -> machine of a packing that fits, for tight pools (at their maximum, several pod sizes)."""
    result: dict[str, str] = {}
    for pool in (each for each in fleet.pools if each.name in fleet.placed.placement.tight):
        machines = _pack_pool(fleet, pool)
        result |= {name: f"gke-{fleet.name}-{pool.name}-{number}" for name, number in machines.items()}
    return result


def _pack_pool(fleet: Fleet, pool: Pool) -> dict[str, int]:
    """Pack the largest pods first, else in the order of the plan, each on the fullest fitting machine."""
    allocatable, chosen = available(pool), fleet.placed.placement.chosen
    taken = {
        name: total_of(choice.claims) for name, choice in chosen.items() if choice.pool.name == pool.name
    }
    named = {process.name for process in fleet.experiment.spec.processes if process.place.pool}
    by_size = sorted(taken, key=lambda name: _share(taken[name], allocatable), reverse=True)
    for order in (by_size, sorted(taken, key=lambda name: name not in named)):
        free, result = [allocatable] * (pool.max or 0), dict[str, int]()
        for name in order:
            fitting = [number for number, left in enumerate(free) if holds(left, taken[name])]
            if not fitting:
                break
            result[name] = min(fitting, key=lambda number: astuple(free[number]))
            free[result[name]] -= taken[name]
        else:
            return result
    raise AssertionError(f"neither order packs the pods of {pool.name} on its machines")


def _share(amounts: Amounts, allocatable: Amounts) -> float:
    return max(take / have for take, have in zip(astuple(amounts), astuple(allocatable), strict=True) if have)
