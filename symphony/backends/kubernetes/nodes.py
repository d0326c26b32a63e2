"""Reads the nodes of a cluster: their pools, and which change would let a pod be scheduled.

GKE labels nodes with the names of their pools.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symphony.backends.kubernetes.api.client import Client, Forbidden, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX, annotation
from symphony.placement.pool import GPU_LABEL, GPU_RESOURCE, POOL_LABEL, SPOT_LABEL, Amounts, Pool, Taint
from symphony.placement.quantities import amount

# The cluster's own namespaces, whose pods use part of every node.
_SYSTEM = ("kube-system", "gmp-system", "gke-managed-system", "gke-gmp-system", "gke-managed-cim")
# Temporary taints that the cluster puts on nodes that are unhealthy or about to be removed.
_TEMPORARY_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "DeletionCandidate",
    "ToBeDeleted",
)
_ENDED = ("Succeeded", "Failed")
GENERAL_REMEDY = "Request less, add a node, or change node_selector and tolerations"
_KINDS = ("cpu", "memory", "gpus")


def read_pools(client: Client) -> tuple[Pool, ...]:
    """Return the pools, each with the cpu, memory and GPUs that each of its nodes has free for experiments.

    The maximum size of a pool is unknown. The result is empty if the user may not list the nodes, or the
    pods of the cluster's own namespaces.
    """
    nodes: dict[str, list[Values]] = defaultdict(list)
    try:
        for node in client.items(path_of("nodes")):
            if name := text(node, "metadata", "labels", POOL_LABEL):
                nodes[name].append(node)
        claimed = _system_requests(client) if nodes else {}
    except Forbidden:
        return ()
    return tuple(_pool(name, machines, claimed) for name, machines in nodes.items())


def _pool(name: str, nodes: Sequence[Values], claimed: Mapping[str, Amounts]) -> Pool:
    first, *others = (mapping(node, "metadata", "labels") for node in nodes)
    # The zone and the hostname may differ between the nodes of a pool.
    labels = {key: label for key, label in first.items() if all(own.get(key) == label for own in others)}
    free_of = [allocatable(node) - claimed.get(text(node, "metadata", "name"), Amounts()) for node in nodes]
    kinds = ("cpu", "memory", "gpus", "pods")
    free = Amounts(*(min(getattr(amounts, kind) for amounts in free_of) for kind in kinds))
    capacity = mapping(nodes[0], "status", "capacity")
    zones = {text(node, "metadata", "labels", "topology.kubernetes.io/zone") for node in nodes} - {""}
    return Pool(
        name=name,
        machine_type=text(labels, "node.kubernetes.io/instance-type"),
        cpu=float(amount(capacity.get("cpu")) or 0),
        memory=_integer(capacity.get("memory")),
        labels=labels,
        taints=tuple(_taints(nodes[0])),
        gpu_type=text(labels, GPU_LABEL),
        gpus=free.gpus,
        spot=text(labels, SPOT_LABEL) == "true",
        zones=tuple(sorted(zones)),
        allocatable=free,
    )


def _taints(node: Values) -> Iterable[Taint]:
    for taint in listing(node, "spec", "taints"):
        if not _is_temporary(taint):
            yield Taint(text(taint, "key"), text(taint, "value"), text(taint, "effect"))


def _is_temporary(taint: Values) -> bool:
    return text(taint, "key").startswith(_TEMPORARY_TAINTS)


def allocatable(node: Values) -> Amounts:
    """Return the amounts of a node that pods can use."""
    return _amounts(mapping(node, "status", "allocatable"))


def _amounts(resources: Values) -> Amounts:
    return Amounts(
        _thousandths(resources.get("cpu")),
        _integer(resources.get("memory")),
        _integer(resources.get(GPU_RESOURCE)),
        _integer(resources.get("pods")),
    )


def _system_requests(client: Client) -> dict[str, Amounts]:
    """Return the requests of the cluster's own pods, by their node."""
    pods = [pod for namespace in _SYSTEM for pod in client.items(path_of("pods", namespace))]
    return _requests_by_node(pod for pod in pods if text(pod, "status", "phase") not in _ENDED)


def _requests_by_node(pods: Iterable[Values]) -> dict[str, Amounts]:
    """Return the sum of the requests of the pods on each node."""
    on_node: dict[str, list[Values]] = defaultdict(list)
    for pod in pods:
        on_node[text(pod, "spec", "nodeName")].append(pod)
    return {node: total_requests(node_pods) for node, node_pods in on_node.items()}


def total_requests(pods: Sequence[Values]) -> Amounts:
    """Return the sum of the requests of pods."""
    containers = [container for pod in pods for container in listing(pod, "spec", "containers")]
    requests = (_amounts(mapping(container, "resources", "requests")) for container in containers)
    return replace(sum(requests, Amounts()), pods=len(pods))


def _thousandths(quantity: object) -> int:
    return math.floor((amount(quantity) or 0) * 1000)


def _integer(quantity: object) -> int:
    return math.floor(amount(quantity) or 0)


def remedy_of(pod: Values, nodes: Sequence[Values], pods: Iterable[Values]) -> str:
    """Return what would let a pending pod be scheduled, such as `It would fit with cpu <= 1.8`.

    If no node has the labels that the pod selects, or the pod does not tolerate a taint, the remedy names the
    label, or the toleration or taint.

    Args:
        pod: The pending pod.
        nodes: All nodes of the cluster.
        pods: The pods that run on the nodes.
    """
    selected = [node for node in nodes if _is_selected(pod, node)]
    pool = annotation(pod, POOL)
    if not selected:
        return (
            f"Pool {pool} has no node now: wait for a new one, or raise the pool's min"
            if pool
            else _label_remedy(pod, nodes)
        )
    tolerated = [node for node in selected if not _untolerated_taints(pod, node)]
    if not tolerated:
        # Temporary taints come last: a toleration would place the pod on a node that cannot run it.
        untolerated = [(node, taint) for node in selected for taint in _untolerated_taints(pod, node)]
        node, taint = min(untolerated, key=lambda pair: _is_temporary(pair[1]))
        if _is_temporary(taint):
            name = text(node, "metadata", "name")
            return f"Wait until node {name} has no taint {taint['key']}, or add a node like it"
        fields = [name for name in ("key", "value", "effect") if taint.get(name)]
        arguments = ", ".join(f'{name}="{taint[name]}"' for name in fields)
        return f"It would fit with add_toleration({arguments})"
    request = replace(total_requests([pod]), pods=0)
    offers = {text(node, "metadata", "name"): allocatable(node) for node in tolerated}
    changes: list[str] = []
    if any(amounts.holds(request) for amounts in offers.values()):
        changes.append(_one_more(pod, len(selected)))
    used = _requests_by_node(pods)
    lacking = [_lacking(amounts - used.get(name, Amounts()), request) for name, amounts in offers.items()]
    # The node that lacks the fewest kinds, and the smallest part of them.
    least = min(
        lacking, key=lambda free: (len(free), -sum(free[kind] / getattr(request, kind) for kind in free))
    )
    if least and all(free > 0 for free in least.values()):
        changes.append(" and ".join(_at_most(kind, free) for kind, free in least.items()))
    return f"It would fit with {', or '.join(changes)}" if changes else GENERAL_REMEDY


def _one_more(pod: Values, machines: int) -> str:
    """Return `1 more node of pool gpu`, with a note if the pool's maximum is reached."""
    pool, maximum = annotation(pod, POOL), annotation(pod, POOL_MAX)
    if not pool:
        return "1 more node like those that it selects"
    full = f", whose max of {maximum} is reached" if maximum and machines >= int(maximum) else ""
    return f"1 more node of pool {pool}{full}"


def _label_remedy(pod: Values, nodes: Sequence[Values]) -> str:
    """Return a remedy that names the label that no node has, and the labels that nodes have."""
    for key, label in mapping(pod, "spec", "nodeSelector").items():
        existing = sorted({text(node, "metadata", "labels", key) for node in nodes} - {""})
        if str(label) not in existing:
            have = f"{key}: {', '.join(existing[:8])}" if existing else f"no {key} at all"
            return f"Change node_selector: no node has {key}={label}; nodes have {have}"
    return GENERAL_REMEDY


def _is_selected(pod: Values, node: Values) -> bool:
    return mapping(pod, "spec", "nodeSelector").items() <= mapping(node, "metadata", "labels").items()


def _untolerated_taints(pod: Values, node: Values) -> list[Values]:
    """Return the taints of a node that keep the pod off it."""
    tolerations = listing(pod, "spec", "tolerations")
    taints = [taint for taint in listing(node, "spec", "taints") if taint.get("effect") != "PreferNoSchedule"]
    return [taint for taint in taints if not any(_tolerates(toleration, taint) for toleration in tolerations)]


def _tolerates(toleration: Values, taint: Values) -> bool:
    if any(text(toleration, name) not in ("", text(taint, name)) for name in ("effect", "key")):
        return False
    return toleration.get("operator") == "Exists" or text(toleration, "value") == text(taint, "value")


def _lacking(free: Amounts, request: Amounts) -> dict[str, int]:
    """Return the free amount of each resource of which a node has too little."""
    amounts = {kind: max(getattr(free, kind), 0) for kind in _KINDS}
    return {kind: amount for kind, amount in amounts.items() if amount < getattr(request, kind)}


def _at_most(kind: str, free: int) -> str:
    """Return `cpu <= 1.8` or `memory <= 12.5Gi`, rounded down so that it fits."""
    if kind == "memory":
        return f"memory <= {free * 10 // 2**30 / 10:g}Gi" if free >= 2**30 else f"memory <= {free // 2**20}Mi"
    return f"cpu <= {free // 100 / 10:g}" if kind == "cpu" else f"{GPU_RESOURCE} <= {free}"
