"""Reads the pools of a cluster from its nodes, which GKE labels with the name of their pool."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from symphony.backends.kubernetes.api.client import Client, Forbidden, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.placement.pool import GPU_LABEL, GPU_TAINT, POOL_LABEL, SPOT_LABEL, Amounts, Pool, Taint
from symphony.placement.quantities import amount

# Of the cluster itself: they are there before any experiment is.
_SYSTEM = ("kube-system", "gmp-system", "gke-managed-system", "gke-gmp-system", "gke-managed-cim")
# What the cluster's controllers put on a node for as long as it is not well.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "DeletionCandidate", "ToBeDeleted")
_ENDED = ("Succeeded", "Failed")


def read(client: Client) -> tuple[Pool, ...]:
    """Return the pools, each with what its fullest machine leaves to experiments.

    How far a pool may grow is unknown. There are none where the user may not see nodes.
    """
    nodes: dict[str, list[Values]] = defaultdict(list)
    try:
        for node in client.items(path_of("nodes")):
            if name := text(node, "metadata", "labels", POOL_LABEL):
                nodes[name].append(node)
        claimed = _claimed(client) if nodes else {}
    except Forbidden:
        return ()
    return tuple(_pool(name, each, claimed) for name, each in nodes.items())


def _pool(name: str, nodes: Sequence[Values], claimed: dict[str, Amounts]) -> Pool:
    labels = mapping(nodes[0], "metadata", "labels")
    left = [_offered(node) - claimed.get(text(node, "metadata", "name"), Amounts()) for node in nodes]
    room = Amounts(*(min(getattr(each, kind) for each in left) for kind in ("cpu", "memory", "gpus", "pods")))
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
        gpus=room.gpus,
        spot=text(labels, SPOT_LABEL) == "true",
        zones=tuple(sorted(zones)),
        allocatable=room,
    )


def _taints(node: Values) -> Iterable[Taint]:
    for each in listing(node, "spec", "taints"):
        if not text(each, "key").startswith(_PASSING):
            yield Taint(text(each, "key"), text(each, "value"), text(each, "effect"))


def _offered(node: Values) -> Amounts:
    offer = mapping(node, "status", "allocatable")
    return Amounts(
        _thousandths(offer.get("cpu")),
        _integer(offer.get("memory")),
        _integer(offer.get(GPU_TAINT)),
        _integer(offer.get("pods")),
    )


def _claimed(client: Client) -> dict[str, Amounts]:
    """Return node -> the claims of the system's pods on it."""
    result: dict[str, Amounts] = defaultdict(Amounts)
    for namespace in _SYSTEM:
        for pod in client.items(path_of("pods", namespace)):
            if (node := text(pod, "spec", "nodeName")) and text(pod, "status", "phase") not in _ENDED:
                result[node] += _requested(pod)
    return result


def _requested(pod: Values) -> Amounts:
    every = [mapping(each, "resources", "requests") for each in listing(pod, "spec", "containers")]
    cpu = sum(_thousandths(each.get("cpu")) for each in every)
    return Amounts(cpu, sum(_integer(each.get("memory")) for each in every), 0, 1)


def _thousandths(quantity: object) -> int:
    return math.floor((amount(quantity) or 0) * 1000)


def _integer(quantity: object) -> int:
    return math.floor(amount(quantity) or 0)
