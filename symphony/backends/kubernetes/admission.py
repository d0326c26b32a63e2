"""Reads the quotas and limit ranges of a namespace, which refuse pods before they exist."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.placement.quantities import amount

_BOUNDS = {"max": "at most", "min": "at least", "maxLimitRequestRatio": "a limit/request ratio of at most"}


class Rules:
    """The quotas and limit ranges of a namespace, read once for all its processes."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._quotas = _items(client, namespace, "resourcequotas")
        self._ranges = _items(client, namespace, "limitranges")

    def refusing(self, declared: Values) -> list[str]:
        """Return the rules that refuse a process now; empty if none does any more.

        Args:
            declared: The declared settings of the process.
        """
        quotas = [rule for quota in self._quotas for rule in _quota(quota, declared, bool(self._ranges))]
        return [
            *quotas,
            *(rule for limit_range in self._ranges for rule in _limit_range(limit_range, declared)),
        ]


def _quota(quota: Values, declared: Values, has_defaults: bool) -> Iterator[str]:
    """Yield each resource of a quota of which the process needs more than is left.

    Args:
        quota: The quota.
        declared: The declared settings of the process.
        has_defaults: Whether a limit range gives amounts to processes that declare none.
    """
    name = text(quota, "metadata", "name")
    for kind, hard in mapping(quota, "status", "hard").items():
        used = mapping(quota, "status", "used").get(kind)
        room, taken, needed = amount(hard), amount(used), _needed(kind, declared)
        if room is None or taken is None:
            continue
        lacks = taken >= room if needed is None else taken + needed > room
        if needed is None and not has_defaults:
            yield f"quota {name} limits {kind}, which the process does not declare"
        elif lacks:
            more = f", and the process needs {needed:f}" if needed is not None and taken < room else ""
            yield f"quota {name}: {kind} {used} of {hard} used{more}"


def _needed(kind: str, declared: Values) -> Decimal | None:
    """Return what the process needs of a resource of a quota; None if it must declare that and does not."""
    resource = kind.removeprefix("requests.").removeprefix("limits.")
    request, limit = _amounts(declared, resource)
    needed = limit if kind.startswith("limits.") else request
    if resource in ("cpu", "memory"):
        return needed
    # Without the prefix, it counts objects (pods, count/jobs.batch), and a process is one.
    return needed or Decimal(0) if resource != kind else Decimal(1)


def _limit_range(limit_range: Values, declared: Values) -> Iterator[str]:
    """Yield the bounds on containers or pods that the process breaks."""
    name = text(limit_range, "metadata", "name")
    for limit in listing(limit_range, "spec", "limits"):
        broken = [
            f"{words} {bound} {resource}"
            for field, words in _BOUNDS.items()
            for resource, bound in mapping(limit, field).items()
            if _breaks(field, amount(bound), *_amounts(declared, resource))
        ]
        if broken and (kind := text(limit, "type")) in ("Container", "Pod"):
            yield f"limit range {name}: {', '.join(broken)} per {kind}"


def _breaks(field: str, bound: Decimal | None, request: Decimal | None, limit: Decimal | None) -> bool:
    """Return whether declared amounts break a bound; the bounds are also the defaults of undeclared ones."""
    if bound is None:
        return False
    if field == "min":
        return request is not None and request < bound
    if field == "max":
        return any(value is not None and value > bound for value in (request, limit))
    return request is not None and limit is not None and limit > bound * request


def _amounts(declared: Values, resource: str) -> tuple[Decimal | None, Decimal | None]:
    """Return the declared request and limit; a request that is not declared is the limit."""
    name = resource.rpartition("/")[2]
    limit = amount(mapping(declared, "resource_limit").get(name))
    request = amount(mapping(declared, "resource_request").get(name))
    return limit if request is None else request, limit


def _items(client: Client, namespace: str, kind: str) -> list[Values]:
    """Return the objects of a kind; empty if the user may not list them."""
    with contextlib.suppress(Refused):
        return [*client.items(path_of(kind, namespace))]
    return []
