"""The real Kubernetes scheduler agrees with symphony's planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import CoreV1Api

from symphony.placement.pool import POOL_LABEL
from symphony.plan.place import place
from tests.gke import fleets
from tests.gke.fleets import Scheduler
from toolchain.kubernetes.fixtures import Access
from toolchain.plugin_gcp import nodes

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def api(cluster: Access) -> Any:
    return CoreV1Api(config.new_client_from_config(cluster.kubeconfig))


@pytest.fixture(scope="module")
def scheduler(api: Any, kubectl: Callable[..., str]) -> Iterator[Scheduler]:
    namespace = "gke-fleets"
    kubectl("create", "namespace", namespace, ok=False)
    yield Scheduler(api, namespace)
    kubectl("delete", "namespace", namespace, "--wait=false")


def compare(api: Any, scheduler: Scheduler, seeds: range) -> tuple[list[str], int]:
    """Return the differences between scheduler and planner for generated fleets, and the number of pods."""
    wrong: list[str] = []
    pods = 0
    for fleet in map(fleets.fleet, seeds):
        try:
            for pool in fleet.pools:
                nodes.ensure(api, fleet.name, "us-central1-a", pool)
            for differing, number in (
                _compare_plan(scheduler, fleet),
                _compare_one_more_share(scheduler, fleet),
            ):
                wrong += differing
                pods += number
        finally:
            scheduler.clear()
            nodes.remove(api, fleet.name)
    return wrong, pods


def _compare_plan(scheduler: Scheduler, fleet: fleets.Fleet) -> tuple[list[str], int]:
    """Return the pods that are not where the plan has them, and their number.

    Where the plan says that a pool is tight, the pods are pinned to a packing that fits.
    """
    wanted, machines = fleets.pods(fleet), fleets.find_packing(fleet)
    planned = {name: pod["spec"]["nodeSelector"][POOL_LABEL] for name, pod in wanted.items()}
    assert planned == {name: each.pool.name for name, each in fleet.placed.placement.chosen.items()}
    for name, pod in wanted.items():
        if name in machines:
            pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = machines[name]
        scheduler.make(pod, f"{fleet.name}-{name}")
    went = scheduler.verdicts([f"{fleet.name}-{name}" for name in wanted])
    wrong = [
        f"{fleet.name}: {name} is planned on {pool} and went to {went[f'{fleet.name}-{name}'] or 'no node'}"
        for name, pool in planned.items()
        if went[f"{fleet.name}-{name}"] != pool
    ]
    parts = {each.name: each.place.per_machine for each in fleet.experiment.spec.processes}
    shares = [name for name in wanted if parts[name]]
    on = scheduler.nodes_of([f"{fleet.name}-{name}" for name in shares])
    for (part, node), number in Counter(zip(map(parts.__getitem__, shares), on, strict=True)).items():
        if part and node and number > part:
            wrong.append(f"{fleet.name}: {number} shares of a {part}th are on {node}")
    return wrong, len(wanted)


def _compare_one_more_share(scheduler: Scheduler, fleet: fleets.Fleet) -> tuple[list[str], int]:
    """Add one more share to every pool that the plan calls full."""
    full = {f"{fleet.name}-more-{pool}": pod for pool, fits, pod in fleets.with_one_more(fleet) if not fits}
    for name, pod in full.items():
        scheduler.make(pod, name)
    went = scheduler.verdicts([*full])
    wrong = [f"{name} does not fit and went to {node}" for name, node in went.items() if node]
    return wrong, len(full)


@pytest.mark.slow
def test_scheduler_and_planner_agree_for_ten_generated_fleets(api: Any, scheduler: Scheduler) -> None:
    wrong, pods = compare(api, scheduler, range(10))
    assert wrong == []
    assert pods > 100


def test_generated_fleets_cover_all_kinds_of_pools_and_requests() -> None:
    """Agreement on simple fleets would prove little."""
    every = [fleets.fleet(seed) for seed in range(200)]
    assert {len(each.pools) for each in every} == {1, 2, 3, 4, 5, 6}
    assert max(len(each.experiment.spec.processes) for each in every) > 30
    kinds = Counter(bool(pool.gpus) for each in every for pool in each.pools)
    assert min(kinds.values()) > 50
    full = [fits for each in every for _, fits, _ in fleets.with_one_more(each)]
    assert full.count(False) > 50
    assert not any(place(each.spec, each.target).problems for each in every)
