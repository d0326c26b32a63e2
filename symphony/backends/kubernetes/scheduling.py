"""Computes which change would let a pod be scheduled, from the nodes and the pods on them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.cluster import pools
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX, annotation
from symphony.placement.pool import GPU_TAINT, Amounts

GENERAL = "Request less, add a node, or change node_selector and tolerations"
_KINDS = ("cpu", "memory", "gpus")


def needs(pod: Values, nodes: Sequence[Values], pods: Iterable[Values]) -> str:
    """Return a remedy, `fits after: 1 more node of its kind, or cpu <= 1.8`, or the label or taint."""
    selected = [node for node in nodes if _is_selected(pod, node)]
    pool = annotation(pod, POOL)
    if not selected:
        return (
            f"Pool {pool} has no machine now: wait for a new one, or raise min"
            if pool
            else _labels(pod, nodes)
        )
    tolerated = [node for node in selected if not _taints(pod, node)]
    if not tolerated:
        taint = _taints(pod, selected[0])[0]
        fields = [name for name in ("key", "value", "effect") if taint.get(name)]
        arguments = ", ".join(f'{name}="{taint[name]}"' for name in fields)
        return f"fits after: add_toleration({arguments})"
    request = replace(pools.requested([pod]), pods=0)
    allocatable = {text(node, "metadata", "name"): pools.allocatable(node) for node in tolerated}
    changes: list[str] = []
    if any(amounts.holds(request) for amounts in allocatable.values()):
        changes.append(_one_more(pod, len(selected)))
    used = _used(pods)
    lacking = [
        _lacking(amounts - used.get(name, Amounts()), request) for name, amounts in allocatable.items()
    ]
    # The node that lacks the fewest kinds, and the smallest part of them.
    least = min(
        lacking, key=lambda free: (len(free), -sum(free[kind] / getattr(request, kind) for kind in free))
    )
    if least and all(free > 0 for free in least.values()):
        changes.append(" and ".join(_at_most(kind, free) for kind, free in least.items()))
    return f"fits after: {', or '.join(changes)}" if changes else GENERAL


def _one_more(pod: Values, machines: int) -> str:
    """Return `1 more machine of pool gpu`, and whether the pool's maximum is reached."""
    pool, maximum = annotation(pod, POOL), annotation(pod, POOL_MAX)
    if not pool:
        return "1 more node of its kind"
    full = f", whose max of {maximum} is reached" if maximum and machines >= int(maximum) else ""
    return f"1 more machine of pool {pool}{full}"


def _labels(pod: Values, nodes: Sequence[Values]) -> str:
    """Return a remedy that names the label that no node has, and the labels that nodes have."""
    for key, label in mapping(pod, "spec", "nodeSelector").items():
        existing = sorted({text(node, "metadata", "labels", key) for node in nodes} - {""})
        if str(label) not in existing:
            have = f"{key}: {', '.join(existing[:8])}" if existing else f"no {key} at all"
            return f"Change node_selector: no node has {key}={label}; nodes have {have}"
    return GENERAL


def _is_selected(pod: Values, node: Values) -> bool:
    return mapping(pod, "spec", "nodeSelector").items() <= mapping(node, "metadata", "labels").items()


def _taints(pod: Values, node: Values) -> list[Values]:
    """Return the taints of a node that keep the pod off it."""
    tolerations = listing(pod, "spec", "tolerations")
    taints = [taint for taint in listing(node, "spec", "taints") if taint.get("effect") != "PreferNoSchedule"]
    return [taint for taint in taints if not any(_tolerates(toleration, taint) for toleration in tolerations)]


def _tolerates(toleration: Values, taint: Values) -> bool:
    if any(text(toleration, name) not in ("", text(taint, name)) for name in ("effect", "key")):
        return False
    return toleration.get("operator") == "Exists" or text(toleration, "value") == text(taint, "value")


def _used(pods: Iterable[Values]) -> dict[str, Amounts]:
    """Return the sum of the requests of the pods on each node."""
    on_node: dict[str, list[Values]] = defaultdict(list)
    for pod in pods:
        on_node[text(pod, "spec", "nodeName")].append(pod)
    return {node: pools.requested(node_pods) for node, node_pods in on_node.items()}


def _lacking(free: Amounts, request: Amounts) -> dict[str, int]:
    """Return the free amount of each resource of which a node has too little."""
    amounts = {kind: max(getattr(free, kind), 0) for kind in _KINDS}
    return {kind: amount for kind, amount in amounts.items() if amount < getattr(request, kind)}


def _at_most(kind: str, free: int) -> str:
    """Return `cpu <= 1.8` or `memory <= 12.5Gi`, rounded down so that it fits."""
    if kind == "memory":
        return f"memory <= {free * 10 // 2**30 / 10:g}Gi" if free >= 2**30 else f"memory <= {free // 2**20}Mi"
    return f"cpu <= {free // 100 / 10:g}" if kind == "cpu" else f"{GPU_TAINT} <= {free}"
