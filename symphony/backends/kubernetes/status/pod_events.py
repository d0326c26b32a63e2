"""Reads the events of pods and Jobs that say what keeps them from running."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, text
from symphony.backends.kubernetes.manifests import controllers
from symphony.backends.kubernetes.status import pod_status

_PAGE = 500


def of_pods(client: Client, namespace: str, pods: Iterable[Values]) -> dict[str, str]:
    """Return the name of a pod -> why its containers do not start, where only events say that."""
    # An older pod of the same name may have left events.
    events: dict[str, list[Values]] = {
        text(pod, "metadata", "uid"): [] for pod in pods if pod_status.needs_events(pod)
    }
    if not events:
        return {}
    for kind in ("Warning", "Normal"):
        for each in _events(client, namespace, controllers.POD, kind):
            if (uid := text(each, "involvedObject", "uid")) in events:
                events[uid].append(each)
        # What goes well is asked, for it is much, only where something did not.
        if not any(map(pod_status.trouble, events.values())):
            return {}
    troubles = filter(None, map(pod_status.trouble, events.values()))
    return {text(each, "involvedObject", "name"): _words(each) for each in troubles}


def of_jobs(client: Client, namespace: str) -> dict[str, str]:
    """Return the uid of a Job -> the newest warning about it."""
    every = _events(client, namespace, controllers.JOB, "Warning")
    every.sort(key=lambda each: pod_status.event_time(each) or 0.0)
    return {text(each, "involvedObject", "uid"): _words(each) for each in every}


def _events(client: Client, namespace: str, kind: str, type_: str) -> list[Values]:
    """Return all events of one type about objects of a kind; none where the user may not list them."""
    query: dict[str, str | int] = {
        "fieldSelector": f"involvedObject.kind={kind},type={type_}",
        "limit": _PAGE,
    }
    result: list[Values] = []
    # A listing that grew too old between two pages ends with what there was.
    with contextlib.suppress(Refused):
        while True:
            page = client.get(path_of("events", namespace), **query)
            result += listing(page, "items")
            query["continue"] = text(page, "metadata", "continue")
            if not query["continue"]:
                break
    return result


def _words(event: Values) -> str:
    return f"{text(event, 'reason')}: {text(event, 'message')}"
