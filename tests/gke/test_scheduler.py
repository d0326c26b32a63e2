"""What the planner places, the real scheduler places there too; where it says no, that says no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from symphony.placement.pool import POOL_LABEL
from symphony.plan.placed import placed
from tests.gke import fleets
from tests.gke.fleets import Scheduler
from toolchain.kubernetes.fixtures import Access
from toolchain.plugin_gcp import nodes
from toolchain.plugin_kubernetes.api import access
from toolchain.plugin_kubernetes.api.connection import Connection

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def requests(cluster: Access) -> Connection:
    return Connection(access.load(cluster.kubeconfig))


@pytest.fixture(scope="module")
def scheduler(requests: Connection, kubectl: Callable[..., str]) -> Iterator[Scheduler]:
    namespace = "gke-fleets"
    kubectl("create", "namespace", namespace, ok=False)
    yield Scheduler(requests, namespace)
    kubectl("delete", "namespace", namespace, "--wait=false")


def disagreements(requests: Connection, scheduler: Scheduler, seed: int) -> list[str]:
    """Where the scheduler does otherwise than the plan of one generated fleet says."""
    fleet = fleets.fleet(seed)
    try:
        for pool in fleet.pools:
            nodes.ensure(requests, fleet.name, "us-central1-a", pool)
        wrong, left = _of_plan(scheduler, fleet)
        return [*wrong, *_of_one_more(scheduler, fleet, left)]
    finally:
        scheduler.clear()
        nodes.remove(requests, fleet.name)


def _of_plan(scheduler: Scheduler, fleet: fleets.Fleet) -> tuple[list[str], set[str]]:
    """What is elsewhere than planned, and the pools of which the plan said that it may be, and was."""
    wrong: list[str] = []
    left: set[str] = set()
    wanted = fleets.pods(fleet)
    for name, pod in wanted.items():
        scheduler.make(pod, f"{fleet.name}-{name}")
    verdicts = scheduler.verdicts([f"{fleet.name}-{name}" for name in wanted])
    tight = fleet.placed.placement.tight
    for name, pod in wanted.items():
        pool, went = pod["spec"]["nodeSelector"][POOL_LABEL], verdicts[f"{fleet.name}-{name}"]
        assert pool == fleet.placed.placement.chosen[name].pool.name
        # Of a pool that is full only if it is packed well the plan says so.
        if went == "" and pool in tight:
            left.add(pool)
        elif went != pool:
            wrong.append(f"{fleet.name}: {name} is planned on {pool} and went to {went or 'no node'}")
    shares = Counter(
        (process.place.per_machine, node)
        for process in fleet.experiment.spec.processes
        if process.place.per_machine and verdicts[f"{fleet.name}-{process.name}"]
        for node in scheduler.nodes_of([f"{fleet.name}-{process.name}"])
    )
    for (parts, node), number in shares.items():
        if number > parts:
            wrong.append(f"{fleet.name}: {number} shares of a {parts}th are on {node}")
    return wrong, left


def _of_one_more(scheduler: Scheduler, fleet: fleets.Fleet, left: set[str]) -> Iterator[str]:
    for number, (pool, fits, pod) in enumerate(fleets.with_one_more(fleet)):
        name = f"{fleet.name}-more-{number}"
        if fits or pool in left:
            continue
        scheduler.make(pod, name)
        went = scheduler.verdicts([name])[name]
        if went:
            yield f"{fleet.name}: one more does not fit {pool} and went to {went}"


@pytest.mark.thorough
def test_of_ten_fleets_the_scheduler_agrees(requests: Connection, scheduler: Scheduler) -> None:
    assert [each for seed in range(10) for each in disagreements(requests, scheduler, seed)] == []


@pytest.mark.slow
def test_of_two_hundred_fleets_the_scheduler_agrees(requests: Connection, scheduler: Scheduler) -> None:
    assert [each for seed in range(200) for each in disagreements(requests, scheduler, seed)] == []


def test_the_generated_fleets_hold_all_kinds() -> None:
    """Else agreement would mean little."""
    every = [fleets.fleet(seed) for seed in range(200)]
    assert {len(each.pools) for each in every} == {1, 2, 3, 4, 5, 6}
    assert max(len(each.experiment.spec.processes) for each in every) > 30
    kinds = Counter(bool(pool.gpus) for each in every for pool in each.pools)
    assert min(kinds.values()) > 50
    full = [fits for each in every for _, fits, _ in fleets.with_one_more(each)]
    assert full.count(False) > 50
    assert not any(placed(each.spec, each.target).problems for each in every)
