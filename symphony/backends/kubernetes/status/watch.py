"""Watches the pods of an experiment become ready, all in one watch that always ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.api.client import Body, Client, Refused, Unreachable, path_of
from symphony.backends.kubernetes.api.fields import listing, text
from symphony.backends.kubernetes.cluster import inventory
from symphony.backends.kubernetes.manifests import labels, probes
from symphony.backends.kubernetes.status import pod_status

# A server that falls silent during a watch is an error within 30 s: one watch, and one answer that does not
# come.
_ONE_WATCH = 8
_GRACE = 3.0
# Kubernetes pulls an image again after 10 s and 20 s; one that cannot be pulled by then is a mistake.
_IMAGE_PATIENCE = 35.0
# Hundreds of pods change at once: events and Jobs are read at most this often.
_ASK_EVERY = 1.0
# A program that fails as it begins runs for a moment; kubelet looks once a second, or later if it is busy.
_SECOND_LOOK = 2.5
# A process that binds a service and never listens declares no probe, and most likely needs none.
_UNDECLARED = 5.0
_ENDED = ("completed", "failed", "lost", "blocked")

Look = TypeVar("Look")
# The pod, the process and its restarts, for all of them.
_Starts = list[tuple[str, str, int]]


@dataclass
class Reported:
    """The facts beside the pods that `look` last read from the API server.

    events:     the name of a pod -> what its events say keeps it from running.
    finished:   pods whose Jobs came to a good end, as the plan calls them; they need not be there.
    late:       pods that wait for the end of a computation.
    pending:    Services that have no outside address yet.
    """

    events: Mapping[str, str] = field(default_factory=dict[str, str])
    finished: Collection[str] = ()
    pending: Collection[str] = ()
    late: Collection[str] = ()


def watch(
    client: Client,
    namespace: str,
    names: Collection[str],
    look: Callable[[Mapping[str, Body], bool], Look],
    reported: Reported,
    patience: float,
    limit: float,
) -> Iterator[Look]:
    """Yield what `look` returns for the pods, at once and whenever that changes.

    look: called with the pods, and whether to read again what the pods do not say.

    The watch ends when every pod has ended or runs, and none was restarted until a second look; when for
    `patience` seconds there is nothing but trouble that waiting rarely cures, a crash loop counted from its
    first crash; what binds a service, declares no probe and does not listen is waited for some seconds; when
    an image cannot be pulled, whatever else is on its way; or after `limit` seconds.

    Raises:
        Unreachable: The API server does not answer any more.
    """
    until = time.monotonic() + limit
    asked = -_ASK_EVERY
    last: Look | None = None
    moved = False
    settled: _Starts | None = None
    trouble = _Trouble(patience)
    while time.monotonic() < until:
        for pods in _versions(client, namespace, until):
            thorough = time.monotonic() - asked >= _ASK_EVERY
            now = look(pods, thorough)
            asked = time.monotonic() if thorough else asked
            if now != last:
                last = now
                yield now
            planned = {name: pods.get(name) for name in names if name not in reported.finished}
            held = {name for name, pod in planned.items() if pod is not None and supervisor.is_gated(pod)}
            silent = {
                name: since for name, pod in planned.items() if (since := _silent_since(pod)) is not None
            }
            moment = inventory.server_time(client) if silent else 0.0
            given_up = {name for name, since in silent.items() if moment - since > _UNDECLARED}
            left_alone = held.intersection(reported.late) | given_up
            waiting = {
                name: pod
                for name, pod in planned.items()
                if pod is None or not (_is_settled(pod) or name in left_alone)
            }
            if not waiting:
                starts = _starts(planned)
                # The supervisor may not have looked at what this run changed.
                if starts == settled or (not held and (not moved or not _runs(planned))):
                    return
                settled = starts
                # The second look is a new listing: the changes of the watch are old by then.
                break
            moved, settled = True, None
            if trouble.is_final(planned, list(waiting.values()), reported.events):
                return
            if waiting.keys() <= silent.keys():
                # Nothing may change before they are given up.
                time.sleep(_ASK_EVERY)
                break
        if settled is not None:
            time.sleep(_SECOND_LOOK)


def _versions(client: Client, namespace: str, until: float) -> Iterator[Mapping[str, Body]]:
    """Yield the pods by name: from a listing, then after every change of the next seconds."""
    pods, version = _listed(client, namespace)
    yield labels.by_pod(pods.values())
    yield from _changes(client, namespace, pods, version, until)


def _listed(client: Client, namespace: str) -> tuple[dict[str, Body], str]:
    """Return the pods by their own names, and the version from which a watch goes on."""
    listing = client.get(path_of("pods", namespace), labelSelector=labels.OURS)
    items: list[Body] = listing.get("items") or []
    pods = {text(each, "metadata", "name"): each for each in items}
    return pods, text(listing, "metadata", "resourceVersion")


def _changes(
    client: Client, namespace: str, pods: dict[str, Body], version: str, until: float
) -> Iterator[Mapping[str, Body]]:
    seconds = max(1, min(_ONE_WATCH, int(until - time.monotonic())))
    try:
        with client.stream(
            path_of("pods", namespace),
            seconds + _GRACE,
            watch="true",
            labelSelector=labels.OURS,
            resourceVersion=version,
            timeoutSeconds=seconds,
        ) as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                pod = event["object"]
                if event["type"] == "DELETED":
                    pods.pop(text(pod, "metadata", "name"), None)
                else:
                    pods[text(pod, "metadata", "name")] = pod
                yield labels.by_pod(pods.values())
    except (OSError, ValueError, Unreachable, Refused):
        # The next listing shows whether the server is still there; a user who may not watch lists again.
        time.sleep(0.5)


@dataclass
class _Trouble:
    """Since when there has been trouble that waiting rarely cures."""

    patience: float
    hopeless_since: float | None = None
    lacking: dict[str, float] = field(default_factory=dict[str, float])

    def is_final(
        self, pods: Mapping[str, Body | None], waiting: Sequence[Body | None], events: Mapping[str, str]
    ) -> bool:
        """Return whether the trouble has lasted so long that waiting is of no use."""
        now = time.monotonic()
        # An image that was pulled in the end is lacking no more.
        names = [name for name, pod in pods.items() if pod is not None and pod_status.lacks_image(pod)]
        self.lacking = {name: self.lacking.get(name, now) for name in names}
        if any(since < now - min(self.patience, _IMAGE_PATIENCE) for since in self.lacking.values()):
            return True
        hopeful = [pod for pod in waiting if pod is not None and not _is_hopeless(pod, events)]
        if not all(map(_has_crashed, hopeful)):
            self.hopeless_since = None
            return False
        # A process that crashes again and again runs for a moment now and then.
        self.hopeless_since = now if self.hopeless_since is None else self.hopeless_since
        return not hopeful and now - self.hopeless_since > self.patience


def _is_hopeless(pod: Body, events: Mapping[str, str]) -> bool:
    """Return whether waiting will not start a pod: only an event tells of a volume that is missing.

    An image that cannot be pulled has a patience of its own.
    """
    if pod_status.lacks_image(pod):
        return False
    has_event = pod_status.needs_events(pod) and text(pod, "metadata", "name") in events
    return has_event or pod_status.is_hopeless(pod)


def _starts(pods: Mapping[str, Body | None]) -> _Starts:
    """Return the number of restarts of every process."""
    return [
        (text(pod, "metadata", "uid"), each.name, each.restarts)
        for pod in pods.values()
        if pod is not None
        for each in pod_status.statuses(pod)
    ]


def _runs(pods: Mapping[str, Body | None]) -> bool:
    return any(each.ready for pod in pods.values() if pod is not None for each in pod_status.statuses(pod))


def _has_crashed(pod: Body) -> bool:
    """Return whether a process of the pod that does not run now was started before."""
    return any(each.restarts and not each.ready for each in pod_status.statuses(pod))


def _silent_since(pod: Body | None) -> float | None:
    """Return since when all that a pod lacks is that what it runs listens, and declares no probe."""
    if pod is None:
        return None
    containers = {text(each, "name"): each for each in listing(pod, "spec", "containers")}
    unready = [each for each in pod_status.statuses(pod) if each.state == "running" and not each.ready]
    others = [each for each in pod_status.statuses(pod) if each not in unready]
    is_undeclared = all(probes.is_undeclared(containers[each.name]) for each in unready)
    are_settled = all(each.ready or each.state in _ENDED for each in others)
    if not (unready and is_undeclared and are_settled):
        return None
    return max(each.since or 0.0 for each in unready)


def _is_settled(pod: Body) -> bool:
    """Return whether every process of the pod runs or has ended."""
    if supervisor.note(pod, supervisor.STOPPED):
        return True
    return all(each.ready or each.state in _ENDED for each in pod_status.statuses(pod))
