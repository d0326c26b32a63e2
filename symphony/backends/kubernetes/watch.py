"""Watches the pods of an experiment until they are ready or waiting is of no use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from symphony.backends.kubernetes import inventory, pod_status, supervisor
from symphony.backends.kubernetes.api.client import Body, Client, Refused, Unreachable, path_of
from symphony.backends.kubernetes.api.fields import listing, text
from symphony.backends.kubernetes.manifests import labels, probes

# Seconds of a watch: a server that falls silent is an error within 30 s, after a watch and an unanswered
# request.
_ONE_WATCH = 8
_GRACE = 3.0
# Kubernetes retries a pull after 10 s and 20 s; an image that cannot be pulled by then is a mistake.
_IMAGE_PATIENCE = 35.0
# Seconds between two readings of the pods' events and of Services: hundreds of pods may change at once.
_ASK_EVERY = 1.0
# A program that fails at its start runs for a moment; kubelet looks once a second, or later if it is busy.
_SECOND_LOOK = 2.5
# Seconds to wait for a process without a declared probe that does not listen on what it binds.
_UNDECLARED = 5.0
_ENDED = ("completed", "failed", "lost", "blocked")

Look = TypeVar("Look")
# (uid of the pod, process, restarts) of every process.
_Starts = list[tuple[str, str, int]]


@dataclass
class Reported:
    """The facts besides the pods that `look` last read from the API server.

    events:     the name of a pod -> why it does not run, according to its events.
    finished:   the names of the complete Jobs, whose pods need not exist.
    late:       pods that wait until another process completes or ends.
    pending:    Services that have no external address yet.
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
    """Yield the result of `look`, at once and whenever it changes.

    look: called with the pods, and whether to read their events and the Services again.

    The watch ends
    - when every pod has ended or is ready, and none has restarted at a second look;
    - when only trouble that waiting rarely cures has lasted for `patience` seconds, a crash loop counted from
      its first crash;
    - when an image cannot be pulled;
    - after `limit` seconds.
    A process without a declared probe that does not listen on what it binds is waited for some seconds only.
    A pod that is held until another process completes or ends is not waited for; other held pods are,
    but only for `patience` while a pod is missing.

    Raises:
        Unreachable: The API server no longer answers.
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
            current = look(pods, thorough)
            asked = time.monotonic() if thorough else asked
            if current != last:
                last = current
                yield current
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
                # The supervisor may not have noticed this run's changes yet.
                if starts == settled or (not held and (not moved or not _runs(planned))):
                    return
                settled = starts
                # The second look is a new listing, since the watch's changes are old by then.
                break
            moved, settled = True, None
            if trouble.is_final(planned, list(waiting.values()), reported.events):
                return
            if waiting.keys() <= silent.keys():
                # Perhaps no further event arrives, so the time is checked again without one.
                time.sleep(_ASK_EVERY)
                break
        if settled is not None:
            time.sleep(_SECOND_LOOK)


def _versions(client: Client, namespace: str, until: float) -> Iterator[Mapping[str, Body]]:
    """Yield the pods by name: from a listing, then after every change during a watch."""
    listed = client.get(path_of("pods", namespace), labelSelector=labels.OURS)
    items: list[Body] = listed.get("items") or []
    pods = {text(pod, "metadata", "name"): pod for pod in items}
    yield labels.by_pod(pods.values())
    seconds = max(1, min(_ONE_WATCH, int(until - time.monotonic())))
    try:
        with client.stream(
            path_of("pods", namespace),
            seconds + _GRACE,
            watch="true",
            labelSelector=labels.OURS,
            resourceVersion=text(listed, "metadata", "resourceVersion"),
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
        # The next listing shows whether the server still answers; it also serves users who may not watch.
        time.sleep(0.5)


@dataclass
class _Trouble:
    """Records since when there has been trouble that waiting rarely cures."""

    patience: float
    hopeless_since: float | None = None
    lacking: dict[str, float] = field(default_factory=dict[str, float])

    def is_final(
        self, pods: Mapping[str, Body | None], waiting: Sequence[Body | None], events: Mapping[str, str]
    ) -> bool:
        """Return whether the trouble has lasted too long to wait any more."""
        now = time.monotonic()
        # Rebuilt each time, so that images that were pulled in the end are dropped.
        names = [name for name, pod in pods.items() if pod is not None and pod_status.lacks_image(pod)]
        self.lacking = {name: self.lacking.get(name, now) for name in names}
        if any(since < now - min(self.patience, _IMAGE_PATIENCE) for since in self.lacking.values()):
            return True
        # A held pod does not start while its supervisor, or a pod that it waits for, is missing.
        able = [pod for pod in waiting if pod and not (None in waiting and supervisor.is_gated(pod))]
        hopeful = [pod for pod in able if not _is_hopeless(pod, events)]
        if not all(map(_has_crashed, hopeful)):
            self.hopeless_since = None
            return False
        # A crash-looping process runs for a moment now and then, which does not end the trouble.
        self.hopeless_since = now if self.hopeless_since is None else self.hopeless_since
        return not hopeful and now - self.hopeless_since > self.patience


def _is_hopeless(pod: Body, events: Mapping[str, str]) -> bool:
    """Return whether waiting will not start a pod; a missing volume shows only in events.

    An image that cannot be pulled is counted separately.
    """
    if pod_status.lacks_image(pod):
        return False
    has_event = pod_status.needs_events(pod) and text(pod, "metadata", "name") in events
    return has_event or pod_status.is_hopeless(pod)


def _starts(pods: Mapping[str, Body | None]) -> _Starts:
    """Return the number of restarts of every process."""
    return [
        (text(pod, "metadata", "uid"), status.name, status.restarts)
        for pod in pods.values()
        if pod is not None
        for status in pod_status.statuses(pod)
    ]


def _runs(pods: Mapping[str, Body | None]) -> bool:
    return any(
        status.ready for pod in pods.values() if pod is not None for status in pod_status.statuses(pod)
    )


def _has_crashed(pod: Body) -> bool:
    """Return whether a process of the pod has restarted and is not ready now."""
    return any(status.restarts and not status.ready for status in pod_status.statuses(pod))


def _silent_since(pod: Body | None) -> float | None:
    """Return since when a pod waits only for processes without declared probes to listen; None otherwise."""
    if pod is None:
        return None
    containers = {text(container, "name"): container for container in listing(pod, "spec", "containers")}
    statuses = pod_status.statuses(pod)
    unready = [status for status in statuses if status.state == "running" and not status.ready]
    are_undeclared = all(probes.has_default_probe(containers[status.name]) for status in unready)
    are_settled = all(status.ready or status.state in _ENDED or status in unready for status in statuses)
    if not (unready and are_undeclared and are_settled):
        return None
    return max(status.since or 0.0 for status in unready)


def _is_settled(pod: Body) -> bool:
    """Return whether every process of the pod is ready or has ended."""
    if supervisor.note(pod, supervisor.STOPPED):
        return True
    return all(status.ready or status.state in _ENDED for status in pod_status.statuses(pod))
