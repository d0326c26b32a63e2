"""The real Kubernetes scheduler agrees with symphony's planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from symphony.placement.pool import POOL_LABEL
from tests.gke import fleets
from tests.sandbox import wait_for
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(3000)]
NAMESPACE = "gke-fleets"


def test_the_scheduler_puts_the_pods_of_ten_generated_fleets_where_the_plan_has_them(
    cluster: Access, kubectl: Callable[..., str]
) -> None:
    """Pods of a pool that the plan calls tight are pinned to a packing that fits."""
    # Each worker of a run imports this file; the client takes a second.
    from kubernetes import config
    from kubernetes.client import CoreV1Api

    from toolchain.plugin_gcp import nodes

    api: Any = CoreV1Api(config.new_client_from_config(cluster.kubeconfig))
    kubectl("create", "namespace", NAMESPACE, ok=False)
    try:
        for fleet in map(fleets.fleet, range(10)):
            try:
                for pool in fleet.pools:
                    nodes.ensure(api, fleet.name, "us-central1-a", pool)
                _compare(api, fleet)
            finally:
                _clear(api)
                nodes.remove(api, fleet.name)
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _compare(api: Any, fleet: fleets.Fleet) -> None:
    wanted, machines = fleets.pods(fleet), fleets.find_packing(fleet)
    planned = {name: pod["spec"]["nodeSelector"][POOL_LABEL] for name, pod in wanted.items()}
    assert planned == {name: each.pool.name for name, each in fleet.placed.placement.chosen.items()}
    for name, pod in wanted.items():
        if name in machines:
            pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = machines[name]
        metadata = {**pod["metadata"], "name": name, "namespace": NAMESPACE}
        api.create_namespaced_pod(NAMESPACE, {**pod, "metadata": metadata})

    def placed() -> dict[str, str] | None:
        """Return the node of every pod, once each has one."""
        items = api.list_namespaced_pod(NAMESPACE).items
        found = {pod.metadata.name: pod.spec.node_name for pod in items}
        return found if all(found.values()) else None

    on: dict[str, str] = wait_for(placed, 60, f"every pod of {fleet.name} has a node", pause=0.2)
    pools = {node.metadata.name: node.metadata.labels.get(POOL_LABEL, "?") for node in api.list_node().items}
    assert {name: pools[node] for name, node in on.items()} == planned
    parts = {each.name: each.place.per_machine for each in fleet.experiment.spec.processes}
    # place(per_machine=n) requests 1/n of a machine, so that at most n such pods of any process share one.
    shares = Counter((parts[name] or 0, node) for name, node in on.items() if parts[name])
    assert [share for share, number in shares.items() if number > share[0]] == []


def _clear(api: Any) -> None:
    api.delete_collection_namespaced_pod(NAMESPACE, grace_period_seconds=0)
    wait_for(lambda: not api.list_namespaced_pod(NAMESPACE).items, 60, "no pod is left", pause=0.2)
