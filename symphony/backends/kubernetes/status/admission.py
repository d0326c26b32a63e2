"""Finds why the API server does not take the pods of a namespace: its quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text

UNKNOWN = "the last `up` did not come to it, or the cluster refused it"
_BOUNDS = {"max": "at most", "min": "at least", "maxLimitRequestRatio": "a limit/request ratio of at most"}


def rules(client: Client, namespace: str) -> list[str]:
    """Return what refuses a pod: the quotas that are used up, else all quotas and limit ranges."""
    quotas = [
        (f"quota {text(quota, 'metadata', 'name')}: {kind} {used} of {hard}", used == hard)
        for quota in _items(client, namespace, "resourcequotas")
        for kind, hard in mapping(quota, "status", "hard").items()
        if (used := mapping(quota, "status", "used").get(kind)) is not None
    ]
    used_up = [f"{words} used" for words, is_full in quotas if is_full]
    if used_up:
        return used_up
    ranges = _items(client, namespace, "limitranges")
    return [*(words for words, _ in quotas), *(bound for each in ranges for bound in _bounds(each))]


def _bounds(limit_range: Values) -> Iterator[str]:
    name = text(limit_range, "metadata", "name")
    for limit in listing(limit_range, "spec", "limits"):
        bounds = [
            f"{words} {amount} {kind}"
            for field, words in _BOUNDS.items()
            for kind, amount in mapping(limit, field).items()
        ]
        if bounds:
            yield f"limit range {name}: {', '.join(bounds)} a {text(limit, 'type')}"


def _items(client: Client, namespace: str, kind: str) -> list[Values]:
    """Return the objects of a kind; none where the user may not look."""
    try:
        return [*client.items(path_of(kind, namespace))]
    except Refused:
        return []
