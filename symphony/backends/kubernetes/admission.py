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
        """Return the rules that refuse a process now; if none does, all that may have refused it.

        Args:
            declared: The declared settings of the process.
        """
        rules = [rule for quota in self._quotas for rule in _quota(quota, declared)]
        rules += [rule for limit_range in self._ranges for rule in _limit_range(limit_range, declared)]
        refusing = [rule for rule, refuses in rules if refuses]
        return refusing or [rule for rule, _ in rules]


def _quota(quota: Values, declared: Values) -> Iterator[tuple[str, bool]]:
    """Yield each resource of a quota, and whether it lacks room for the process."""
    name = text(quota, "metadata", "name")
    for kind, hard in mapping(quota, "status", "hard").items():
        used = mapping(quota, "status", "used").get(kind)
        room, taken = amount(hard), amount(used)
        if room is not None and taken is not None:
            needed = _needed(kind, declared)
            lacks = taken + needed > room if needed else taken >= room
            more = f", and the process needs {needed:f}" if lacks and taken < room else ""
            yield f"quota {name}: {kind} {used} of {hard} used{more}", lacks


def _needed(kind: str, declared: Values) -> Decimal:
    """Return what the process needs of a resource of a quota; 0 if it declares nothing."""
    request, limit = _amounts(declared, kind.removeprefix("requests.").removeprefix("limits."))
    return (limit if kind.startswith("limits.") else request) or Decimal(0)


def _limit_range(limit_range: Values, declared: Values) -> Iterator[tuple[str, bool]]:
    """Yield each limit on containers or pods, and whether the process breaks it."""
    name = text(limit_range, "metadata", "name")
    for limit in listing(limit_range, "spec", "limits"):
        kind = text(limit, "type")
        bounds = [
            (f"{words} {bound} {resource}", _breaks(field, amount(bound), *_amounts(declared, resource)))
            for field, words in _BOUNDS.items()
            for resource, bound in mapping(limit, field).items()
        ]
        broken = [words for words, breaks in bounds if breaks]
        if bounds and kind in ("Container", "Pod"):
            listed = ", ".join(broken or [words for words, _ in bounds])
            yield f"limit range {name}: {listed} per {kind}", bool(broken)


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
