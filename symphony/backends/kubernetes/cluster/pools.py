"""Reads the node pools of a cluster from its nodes, which GKE labels with the names of their pools."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symphony.backends.kubernetes.api.client import Client, Forbidden, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.placement.pool import GPU_LABEL, GPU_TAINT, POOL_LABEL, SPOT_LABEL, Amounts, Pool, Taint
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


def read(client: Client) -> tuple[Pool, ...]:
    """Return the pools, each with the least cpu, memory and GPUs that a machine of it leaves for experiments.

    The maximum size of a pool is unknown. The result is empty if the user may not list nodes.
    """
    nodes: dict[str, list[Values]] = defaultdict(list)
    try:
        for node in client.items(path_of("nodes")):
            if name := text(node, "metadata", "labels", POOL_LABEL):
                nodes[name].append(node)
        claimed = _claimed(client) if nodes else {}
    except Forbidden:
        return ()
    return tuple(_pool(name, machines, claimed) for name, machines in nodes.items())


def _pool(name: str, nodes: Sequence[Values], claimed: Mapping[str, Amounts]) -> Pool:
    labels = mapping(nodes[0], "metadata", "labels")
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
        labels={key: str(value) for key, value in labels.items()},
        taints=tuple(_taints(nodes[0])),
        gpu_type=text(labels, GPU_LABEL),
        gpus=free.gpus,
        spot=text(labels, SPOT_LABEL) == "true",
        zones=tuple(sorted(zones)),
        allocatable=free,
    )


def _taints(node: Values) -> Iterable[Taint]:
    for taint in listing(node, "spec", "taints"):
        if not text(taint, "key").startswith(_TEMPORARY_TAINTS):
            yield Taint(text(taint, "key"), text(taint, "value"), text(taint, "effect"))


def allocatable(node: Values) -> Amounts:
    """Return the amounts of a node that pods can use."""
    return _amounts(mapping(node, "status", "allocatable"))


def _amounts(resources: Values) -> Amounts:
    return Amounts(
        _thousandths(resources.get("cpu")),
        _integer(resources.get("memory")),
        _integer(resources.get(GPU_TAINT)),
        _integer(resources.get("pods")),
    )


def _claimed(client: Client) -> dict[str, Amounts]:
    """Return node -> the requests of the cluster's own pods on it."""
    on_node: dict[str, list[Values]] = defaultdict(list)
    for namespace in _SYSTEM:
        for pod in client.items(path_of("pods", namespace)):
            if (node := text(pod, "spec", "nodeName")) and text(pod, "status", "phase") not in _ENDED:
                on_node[node].append(pod)
    return {node: requested(pods) for node, pods in on_node.items()}


def requested(pods: Sequence[Values]) -> Amounts:
    """Return the sum of the requests of pods."""
    containers = [container for pod in pods for container in listing(pod, "spec", "containers")]
    requests = (_amounts(mapping(container, "resources", "requests")) for container in containers)
    return replace(sum(requests, Amounts()), pods=len(pods))


def _thousandths(quantity: object) -> int:
    return math.floor((amount(quantity) or 0) * 1000)


def _integer(quantity: object) -> int:
    return math.floor(amount(quantity) or 0)
