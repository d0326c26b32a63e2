"""The machines of a pool as simulated nodes of the local cluster: as many as its maximum.

Nothing scales them: a pool always has all its machines. Each holds one pod that claims the resources of the
system pods of GKE.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kubernetes.client import ApiException

from symphony.placement.pool import Amounts, Pool, allocatable, available
from toolchain.kubernetes.addons import ANNOTATION, TAINT

_SYSTEM = "kube-system"
_OF_CLUSTER = "symphony.test/gke-cluster"
_OF_POOL = "symphony.test/gke-pool"
_AT_ONCE = 8
_READY_WITHIN = 60.0


def ensure(api: Any, cluster: str, location: str, pool: Pool) -> None:
    """Create the missing nodes of a pool and remove the others; replace a node that differs."""
    wanted = {f"gke-{cluster}-{pool.name}-{number}": number for number in range(pool.max or 0)}
    existing = {node.metadata.name: node for node in _nodes(api, cluster, pool.name)}
    model = _node("", cluster, location, pool, 0)
    stale = [name for name, node in existing.items() if name not in wanted or not _is_like(node, model)]
    _remove(api, stale)
    missing = [name for name in wanted if name not in existing or name in stale]
    _each(missing, lambda name: _make(api, _node(name, cluster, location, pool, wanted[name]), pool))
    until = time.monotonic() + _READY_WITHIN
    while not all(map(_is_ready, _nodes(api, cluster, pool.name))) and time.monotonic() < until:
        time.sleep(0.1)


def remove(api: Any, cluster: str, pool: str | None = None) -> None:
    """Remove the nodes of a pool, or of a whole cluster, with their pods."""
    _remove(api, [node.metadata.name for node in _nodes(api, cluster, pool)])


def _is_ready(node: Any) -> bool:
    """Return whether the scheduler can use the node: a new one is tainted until kwok has seen it."""
    tainted = any(taint.key.startswith("node.kubernetes.io/") for taint in node.spec.taints or ())
    conditions = node.status.conditions or ()
    return not tainted and any(
        condition.type == "Ready" and condition.status == "True" for condition in conditions
    )


def _nodes(api: Any, cluster: str, pool: str | None) -> list[Any]:
    selector = f"{_OF_CLUSTER}={cluster}" + (f",{_OF_POOL}={pool}" if pool else "")
    return api.list_node(label_selector=selector).items


def _remove(api: Any, names: Iterable[str]) -> None:
    def remove_one(name: str) -> None:
        with contextlib.suppress(ApiException):
            api.delete_namespaced_pod(f"system-{name}", _SYSTEM, grace_period_seconds=0)
        with contextlib.suppress(ApiException):
            api.delete_node(name)

    _each(names, remove_one)


def _each(names: Iterable[str], do: Callable[[str], None]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(do, names))


def _make(api: Any, node: dict[str, Any], pool: Pool) -> None:
    name = node["metadata"]["name"]
    with contextlib.suppress(ApiException):
        api.create_node(node)
    claimed = allocatable(pool) - available(pool)
    if claimed.pods:
        with contextlib.suppress(ApiException):
            api.create_namespaced_pod(_SYSTEM, _system_pod(name, claimed))


def _is_like(existing: Any, model: dict[str, Any]) -> bool:
    labels = {key: existing.metadata.labels.get(key) for key in model["metadata"]["labels"]}
    ignored = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    same = all(
        labels[key] == value for key, value in model["metadata"]["labels"].items() if key not in ignored
    )
    # The node controller adds other taints.
    taints = {(taint.key, taint.value or "", taint.effect) for taint in existing.spec.taints or ()}
    return same and all((t["key"], t["value"], t["effect"]) in taints for t in model["spec"]["taints"])


def _node(name: str, cluster: str, location: str, pool: Pool, number: int) -> dict[str, Any]:
    zones = pool.zones or (
        (location,) if location.count("-") == 2 else tuple(f"{location}-{z}" for z in "abc")
    )
    labels = {
        **pool.node_labels,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "-".join(location.split("-")[:2]),
        "topology.kubernetes.io/zone": zones[number % len(zones)],
        "cloud.google.com/gke-provisioning": "spot" if pool.spot else "standard",
        _OF_CLUSTER: cluster,
        _OF_POOL: pool.name,
    }
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]
    claimed = allocatable(pool) - available(pool)
    # One pod represents all system pods.
    room = allocatable(pool) - Amounts(pods=max(0, claimed.pods - 1))
    offered = {
        "cpu": f"{room.cpu}m",
        "memory": str(room.memory),
        "pods": str(room.pods),
        "ephemeral-storage": "50Gi",
        **({"nvidia.com/gpu": str(room.gpus)} if room.gpus else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {ANNOTATION: "fake"}},
        # Keep other pods away from these nodes: they would seem to run.
        "spec": {"taints": [*taints, *([] if TAINT in taints else [TAINT])]},
        "status": {"allocatable": offered, "capacity": {**offered, "cpu": str(int(pool.cpu))}},
    }


def _system_pod(node: str, claimed: Amounts) -> dict[str, Any]:
    requests = {"cpu": f"{claimed.cpu}m", "memory": str(claimed.memory)}
    container = {"name": "system", "image": "system", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"system-{node}", "labels": {_OF_CLUSTER: "system"}},
        "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]},
    }
