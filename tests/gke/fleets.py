"""Generated node pools and experiments, and the decisions of the real scheduler about them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from symphony import Experiment, NodePool
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.planner import total_of
from symphony.placement.pool import POOL_LABEL, Amounts, Pool, available
from symphony.plan.build import build_plan
from symphony.plan.place import Places, place
from symphony.plan.target import Target
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
_WITHIN = 60.0
# The seconds after which an unschedulable pod counts as refused.
_AGAIN = 1.0


@dataclass
class Fleet:
    """Node pools, and an experiment all of whose processes fit."""

    name: str
    pools: tuple[Pool, ...]
    experiment: Experiment
    target: Target
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
        where = replace(expand.target_of(spec, Settings(image="none:1"), name), pools=pools)
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
        add(experiment, f"p-{number}", calls[number])
    return experiment


def add(experiment: Experiment, name: str, call: dict[str, Any]) -> None:
    process = experiment.new_process(name, command="sleep")
    process.add_toleration(FAKE[0], "Equal", FAKE[1], FAKE[2])
    process.place(**call)


def pods(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return the manifests of the experiment's pods, by their names in the plan."""
    plan = build_plan(fleet.spec, fleet.target)
    every = render.render(plan, Settings(image="none:1"), f"test/{fleet.name}#0")
    return {name: pod for name, (_, pod) in every.pods.items()}


def find_packing(fleet: Fleet) -> dict[str, str]:
    """Return pod -> machine of a packing that fits, for the pools that the plan calls tight."""
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
    raise AssertionError(f"nobody knows how the pods of {pool.name} are packed")


def _share(amounts: Amounts, allocatable: Amounts) -> float:
    return max(take / have for take, have in zip(astuple(amounts), astuple(allocatable), strict=True) if have)


def with_one_more(fleet: Fleet) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """Yield the name of each shared pool, whether one more share fits, and the pod of that share."""
    for pool in fleet.pools:
        shares = [
            process.place.per_machine
            for process in fleet.experiment.spec.processes
            if process.place.pool == pool.name and process.place.per_machine
        ]
        if not shares:
            continue
        more = Experiment.from_dict(fleet.experiment.to_dict())
        add(more, "more", {"pool": pool.name, "per_machine": shares[-1]})
        spec = more.spec
        fits = not place(spec, fleet.target).problems
        roomy = tuple(replace(each, max=99) if each.name == pool.name else each for each in fleet.pools)
        larger = Fleet(fleet.name, roomy, more, replace(fleet.target, pools=roomy), fleet.placed)
        yield pool.name, fits, pods(larger)["more"]


class Scheduler:
    """The real scheduler: the pods of one namespace, and their nodes."""

    def __init__(self, api: Any, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def make(self, pod: dict[str, Any], name: str) -> None:
        """Create a pod of this name, without references to other objects."""
        metadata = {**pod["metadata"], "name": name, "namespace": self._namespace}
        self._api.create_namespaced_pod(self._namespace, {**pod, "metadata": metadata})

    def verdicts(self, names: Sequence[str]) -> dict[str, str]:
        """Return name -> the pool of its node, '' if the scheduler finds none."""
        until, before = time.monotonic() + _WITHIN, {""}
        while True:
            living = {pod.metadata.name: pod for pod in self._items()}
            result = {name: _verdict(living[name]) for name in names}
            refused = {name for name, node in result.items() if node == ""}
            if None not in result.values() and refused == before:
                break
            if None not in result.values():
                # The scheduler tries again as soon as something changes.
                before = refused
                time.sleep(_AGAIN if refused else 0)
            assert time.monotonic() < until, f"the scheduler says nothing of {result}"
            time.sleep(0.1)
        nodes = self._api.list_node().items
        pools = {node.metadata.name: node.metadata.labels.get(POOL_LABEL, "?") for node in nodes}
        return {name: pools.get(node, "?") if node else "" for name, node in result.items()}

    def nodes_of(self, names: Sequence[str]) -> list[str]:
        """Return the node of each pod."""
        living = {pod.metadata.name: pod for pod in self._items()}
        return [living[name].spec.node_name or "" for name in names]

    def clear(self) -> None:
        self._api.delete_collection_namespaced_pod(self._namespace, grace_period_seconds=0)
        until = time.monotonic() + _WITHIN
        while self._items() and time.monotonic() < until:
            time.sleep(0.1)

    def _items(self) -> list[Any]:
        return self._api.list_namespaced_pod(self._namespace).items


def _verdict(pod: Any) -> str | None:
    """Return the node, '' if no node fits, or None while the scheduler has not decided."""
    if pod.spec.node_name:
        return pod.spec.node_name
    conditions = pod.status.conditions or ()
    refused = [each for each in conditions if each.type == "PodScheduled" and each.status == "False"]
    return "" if refused else None
