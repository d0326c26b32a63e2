"""Computes what a pod needs to find a node, from the nodes and the pods on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests.labels import POOL, POOL_MAX, annotation
from symphony.placement.quantities import amount

GENERAL = "Ask for less, add a node, or change node_selector and tolerations"
_KINDS = ("cpu", "memory", "nvidia.com/gpu")


def wanted(pod: Values, nodes: Sequence[Values], pods: Iterable[Values]) -> str:
    """Return `fits after: 1 more node of its kind, or cpu <= 1.8`, or the label or taint in the way."""
    selected = [node for node in nodes if _is_selected(pod, node)]
    pool = annotation(pod, POOL)
    if not selected:
        return f"pool {pool} has no machine now" if pool else _labels(pod, nodes)
    open_to = [node for node in selected if not _taints(pod, node)]
    if not open_to:
        taint = _taints(pod, selected[0])[0]
        words = ", ".join(f'{name}="{taint[name]}"' for name in ("key", "value", "effect") if taint.get(name))
        return f"fits after: add_toleration({words})"
    used = _used(pods)
    claims = _claims(pod)
    parts = [_more(pod, len(selected))] if any(_holds(node, claims) for node in open_to) else []
    short = min(
        (_short(node, claims, used) for node in open_to), key=lambda each: (len(each), _lack(each, claims))
    )
    if short and all(short.values()):
        parts.append(" and ".join(f"{kind} <= {_shown(kind, free)}" for kind, free in short.items()))
    return f"fits after: {', or '.join(parts)}" if parts else GENERAL


def _short(
    node: Values, claims: Mapping[str, Decimal], used: Mapping[tuple[str, str], Decimal]
) -> dict[str, Decimal]:
    """Return the resources that a node has too little of, and how much of each is free."""
    free = {kind: _amount(node, kind) - used.get((_name(node), kind), Decimal(0)) for kind in claims}
    return {kind: max(left, Decimal(0)) for kind, left in free.items() if left < claims[kind]}


def _lack(short: Mapping[str, Decimal], claims: Mapping[str, Decimal]) -> Decimal:
    """Return the sum of the missing shares of the claims."""
    return sum((1 - free / claims[kind] for kind, free in short.items()), Decimal(0))


def _more(pod: Values, there: int) -> str:
    """Return `1 more machine of pool gpu`, with its max where that is reached."""
    pool, most = annotation(pod, POOL), annotation(pod, POOL_MAX)
    if not pool:
        return "1 more node of its kind"
    full = f", whose max of {most} is reached" if most and there >= int(most) else ""
    return f"1 more machine of pool {pool}{full}"


def _labels(pod: Values, nodes: Sequence[Values]) -> str:
    """Return the label that no node has, and the values that nodes have instead."""
    for key, value in mapping(pod, "spec", "nodeSelector").items():
        there = sorted({text(node, "metadata", "labels", key) for node in nodes} - {""})
        if str(value) not in there:
            have = f"{key}: {', '.join(there[:8])}" if there else f"no {key} at all"
            return f"no node has {key}={value}; nodes have {have}"
    return GENERAL


def _is_selected(pod: Values, node: Values) -> bool:
    labels = mapping(node, "metadata", "labels")
    return all(labels.get(key) == value for key, value in mapping(pod, "spec", "nodeSelector").items())


def _taints(pod: Values, node: Values) -> list[Values]:
    """Return the taints of a node that keep the pod off it."""
    tolerations = listing(pod, "spec", "tolerations")
    taints = [each for each in listing(node, "spec", "taints") if each.get("effect") != "PreferNoSchedule"]
    return [taint for taint in taints if not any(_tolerates(each, taint) for each in tolerations)]


def _tolerates(toleration: Values, taint: Values) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def _claims(pod: Values) -> dict[str, Decimal]:
    """Return the sum of the pod's requests for resources that can run out."""
    claims: dict[str, Decimal] = {}
    for container in listing(pod, "spec", "containers"):
        requests = mapping(container, "resources", "requests")
        for kind in _KINDS:
            claims[kind] = claims.get(kind, Decimal(0)) + (amount(requests.get(kind)) or Decimal(0))
    return {kind: value for kind, value in claims.items() if value}


def _used(pods: Iterable[Values]) -> dict[tuple[str, str], Decimal]:
    """Return (node, kind) -> the sum of the requests of its pods."""
    used: dict[tuple[str, str], Decimal] = {}
    for pod in pods:
        node = text(pod, "spec", "nodeName")
        if node and text(pod, "status", "phase") not in ("Succeeded", "Failed"):
            for kind, value in _claims(pod).items():
                used[node, kind] = used.get((node, kind), Decimal(0)) + value
    return used


def _holds(node: Values, claims: Mapping[str, Decimal]) -> bool:
    """Return whether an empty node of this kind would hold the claims."""
    return all(_amount(node, kind) >= needed for kind, needed in claims.items())


def _amount(node: Values, kind: str) -> Decimal:
    return amount(_text(mapping(node, "status", "allocatable").get(kind))) or Decimal(0)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _name(node: Values) -> str:
    return text(node, "metadata", "name")


def _shown(kind: str, value: Decimal) -> str:
    """Return `1.8` or `12.5Gi`, rounded down so that it fits."""
    if kind == "memory":
        return f"{float(value * 10 // 2**30) / 10:g}Gi" if value >= 2**30 else f"{int(value) // 2**20}Mi"
    return f"{float(value * 10 // 1) / 10:g}"
