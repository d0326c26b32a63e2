"""Watches the pods of an experiment become ready, all in one watch that always ends; observe exports it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from symphony.backends.interface import ProcessStatus
from symphony.backends.kubernetes import conditions, labels
from symphony.backends.kubernetes.client import Body, Client, Refused, Unreachable, path_of
from symphony.backends.kubernetes.shapes import text

# A server that falls silent in the middle is an error within 30 s: this, and one answer that does not come.
_ONE_WATCH = 8
_GRACE = 3.0
# An image that cannot be had is looked for again after 10 s and 20 s; by then it is a mistake.
_IMAGE_PATIENCE = 35.0
# Hundreds of pods tell of themselves at once: so seldom is asked what else the cluster knows.
_ASK_EVERY = 1.0
# A program that fails as it begins runs for a moment; kubelet looks once a second, and tells later if busy.
_SECOND_LOOK = 2.5

Look = TypeVar("Look")


@dataclass
class Heard:
    """What the pods themselves do not say, as `look` last heard it.

    complaints: the name of a pod -> what the cluster complains of about it.
    finished:   pods whose Jobs came to a good end, as the plan calls them; they need not be there.
    pending:    Services that have no address in the world yet.
    """

    complaints: Mapping[str, str] = field(default_factory=dict[str, str])
    finished: Collection[str] = ()
    pending: Collection[str] = ()


def watch(
    client: Client,
    namespace: str,
    names: Collection[str],
    look: Callable[[Mapping[str, Body], bool], Look],
    heard: Heard,
    patience: float,
    limit: float,
) -> Iterator[Look]:
    """What `look` says of the pods, first at once and then whenever it says something else.

    look: told whether it shall ask what the pods do not say; else what it last heard is new enough.

    Ends when every pod has ended or runs, still so at a second look; when for `patience` seconds nothing
    moved but trouble that waiting rarely cures; when an image cannot be had, whatever else is on its way; or
    after `limit` seconds. Unreachable: the API server does not answer any more.
    """
    began = calm = time.monotonic()
    asked = -_ASK_EVERY
    last: Look | None = None
    moved = False
    # When each pod was first seen to lack an image.
    lacking: dict[str, float] = {}
    for pods in _versions(client, namespace, limit):
        thorough = time.monotonic() - asked >= _ASK_EVERY
        now = look(pods, thorough)
        asked = time.monotonic() if thorough else asked
        if now != last:
            last, calm = now, time.monotonic()
            yield now
        mine = {name: pods.get(name) for name in names if name not in heard.finished}
        waiting = [pod for pod in mine.values() if pod is None or not _is_settled(pod)]
        if not waiting:
            if not moved or _stays(client, namespace, pods, mine):
                return
            continue
        moved = True
        # A crash loop or a failed pull tells something new now and then: count from the beginning, too.
        quiet = time.monotonic() - min(calm, began + patience) > patience
        lacking = _lacking(mine, lacking)
        late = time.monotonic() - min(patience, _IMAGE_PATIENCE)
        if any(since < late for since in lacking.values()):
            return
        if quiet and all(pod is None or _is_hopeless(pod, heard.complaints) for pod in waiting):
            return


def _versions(client: Client, namespace: str, limit: float) -> Iterator[Mapping[str, Body]]:
    """The pods by name, again after every change and at least every few seconds."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        pods, version = _listed(client, namespace)
        yield labels.by_pod(pods.values())
        yield from _changes(client, namespace, pods, version, until)


def _listed(client: Client, namespace: str) -> tuple[dict[str, Body], str]:
    """The pods by their own names, and from which version on a watch goes on."""
    found = client.get(path_of("pods", namespace), labelSelector=labels.OURS)
    items: list[Body] = found.get("items") or []
    pods = {text(each, "metadata", "name"): each for each in items}
    return pods, text(found, "metadata", "resourceVersion")


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
        # The listing that follows says whether the server is still there; who may not watch lists again.
        time.sleep(0.5)


def _lacking(pods: Mapping[str, Body | None], before: Mapping[str, float]) -> dict[str, float]:
    """Since when which pods lack an image; one that was got in the end lacks it no more."""
    names = [name for name, pod in pods.items() if pod is not None and conditions.lacks_image(pod)]
    return {name: before.get(name, time.monotonic()) for name in names}


def _is_hopeless(pod: Body, complaints: Mapping[str, str]) -> bool:
    """Whether waiting alone will not start it: a volume that cannot be mounted only an event tells.

    Of an image that cannot be had it is said when that was so for a while.
    """
    if conditions.lacks_image(pod):
        return False
    complained = conditions.complains(pod) and text(pod, "metadata", "name") in complaints
    return complained or conditions.is_hopeless(pod)


def _stays(client: Client, namespace: str, pods: Mapping[str, Body], names: Collection[str]) -> bool:
    """Whether what runs still does at a second look, without having been started again meanwhile."""
    if not any(each.ready for name in names for each in _stand(pods[name])):
        return True
    time.sleep(_SECOND_LOOK)
    now = labels.by_pod(_listed(client, namespace)[0].values())
    return all(name in now and _starts(now[name]) == _starts(pods[name]) for name in names)


def _starts(pod: Body) -> list[tuple[str, int]]:
    return [(each.state, each.restarts) for each in _stand(pod)]


def _is_settled(pod: Body) -> bool:
    """Whether every process of the pod runs or has ended."""
    return all(each.ready or each.state in ("completed", "failed", "lost") for each in _stand(pod))


def _stand(pod: Body) -> list[ProcessStatus]:
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    return [conditions.status(name, name, pod) for name in names]
