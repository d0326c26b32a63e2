"""Explains one process on Kubernetes step by step: created, scheduled, pulled, started, now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.status import pod_status, service_address
from symphony.backends.kubernetes.status.job_pods import JobStatus
from symphony.backends.observe import Link
from symphony.placement.pool import POOL_LABEL
from symphony.plan.names import printable

_LONGEST = 400

_NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_NEVER_RAN = ("StartError", "ContainerCannotRun")
_NOTHING: Values = {}
# What the words of a registry, or of the way to it, ask for.
_PULLS = (
    (("not found", "manifest unknown"), "Push the image, or correct its name"),
    (
        ("unauthorized", "denied", "authorization", "401", "403"),
        "Name the Secret that may pull it with symphony:pullSecrets",
    ),
    (
        ("no such host", "connection refused", "timeout", "i/o", "no route"),
        "The node does not reach the registry: correct the image's host, or repair the network between them",
    ),
)
# What the autoscaler of a cluster says of its pools.
_SCALING = (
    ("quota", "Have the quota of the region raised"),
    ("max node group size reached", "Raise max of the pool"),
    ("max cluster limit reached", "Raise the limits of the cluster"),
)


# What is wrong with the claims of a pod: no node would help.
_CLAIMS = {
    "not found": "Create that claim in the namespace, or correct its name in pod_yml",
    "unbound": "Its claim has no volume: `kubectl describe pvc` tells why",
    "being deleted": "Its claim is being deleted: wait, and create it again",
}
_STARTS_NOT = (
    (
        "will run as root",
        "Set runAsUser in the securityContext of container_yml, or use an image with a USER",
    ),
    ("not found", "Create what its variables name, or correct their names"),
)


@dataclass(frozen=True)
class Facts:
    """The facts about one process, all of them read before: the chain asks nothing.

    recorded: its settings in the state.
    pod:      None when there is none.
    events:   what the cluster said of the pod, the oldest first.
    services: those that lead to the pod.
    words:    the last lines of a container's log; previous: of its start before this one.
    room:     what it would take to be scheduled.
    keeper:   what makes its pods, `Job`; nothing for a pod of its own.
    stand:    how it stands with a pod that runs no more and that its keeper answers for.
    """

    path: str
    recorded: Mapping[str, Any]
    pod: Values | None
    events: Sequence[Values]
    services: Sequence[Values]
    words: Callable[[str, bool], tuple[str, ...]]
    room: Callable[[], str]
    keeper: str = ""
    job_status: JobStatus | None = None

    @property
    def container(self) -> str:
        return str(self.recorded["container_name"])

    def event(self, *reasons: str) -> Values:
        """Return the newest event for one of these reasons, an empty one when there is none."""
        events = [each for each in self.events if text(each, "reason") in reasons]
        return events[-1] if events else _NOTHING


def chain(facts: Facts, name: str) -> Iterator[Link]:
    """Yield the links of a process whose pod was made; name: of the experiment, for the remedies."""
    yield Link("planned", planned(facts.recorded))
    if facts.job_status is not None and facts.job_status[0] == "completed":
        gone = ", and its pod is gone since" if facts.pod is None else ""
        yield Link("exit", f"exit 0: its {facts.keeper} is complete{gone}", facts.job_status[2])
        return
    steps = (_created, _scheduled, _prepared, _pulled, _started, _now)
    for step in steps:
        for link in step(facts, name):
            yield link
            if link.broken:
                return


def planned(recorded: Mapping[str, Any]) -> str:
    """Return `busybox:1, 500m cpu, 1Gi memory, pool gpu, on nodes with disk=ssd`."""
    claims = {**mapping(recorded, "resources", "limits"), **mapping(recorded, "resources", "requests")}
    selector = dict(mapping(recorded, "pod", "nodeSelector"))
    pool = selector.pop(POOL_LABEL, "")
    parts = [str(recorded.get("image"))]
    parts += [f"{amount} {kind.rpartition('/')[2]}" for kind, amount in claims.items()]
    parts += [f"pool {pool}"] if pool else []
    parts += [f"on nodes with {key}={value}" for key, value in selector.items()]
    return ", ".join(parts)


def _created(facts: Facts, name: str) -> Iterator[Link]:
    if facts.pod is not None:
        made = pod_status.epoch(text(facts.pod, "metadata", "creationTimestamp"))
        yield Link("created", f"pod {text(facts.pod, 'metadata', 'name')}", made)
        return
    if refused := facts.event("FailedCreate"):
        remedy = "Kubernetes tries again by itself once the cause is fixed"
        yield Link(
            "created", f"no: {text(refused, 'message')}", pod_status.event_time(refused), True, remedy=remedy
        )
        return
    if facts.job_status is not None:
        yield Link("created", f"its pod is gone: {facts.job_status[1]}", None, True)
        return
    words = [_words(each) for each in facts.events if text(each, "reason") not in ("Scheduled", "Pulled")]
    remedy = f"`symphony up {name}` makes it again"
    yield Link("created", "yes, but the pod no longer exists", None, True, tuple(words[-3:]), remedy)


def _scheduled(facts: Facts, _: str) -> Iterator[Link]:
    condition = pod_status.condition(facts.pod, "PodScheduled")
    node = text(facts.pod, "spec", "nodeName")
    if node:
        yield Link("scheduled", f"on {node}", pod_status.epoch(condition.get("lastTransitionTime")))
        return
    reason = pod_status.in_short(str(condition.get("message") or "the scheduler has not answered yet"))
    message = printable(reason, _LONGEST)
    scaling = _words(facts.event("NotTriggerScaleUp", "FailedScaleUp", "TriggeredScaleUp"))
    remedies = [remedy for word, remedy in _SCALING if word in scaling.lower()]
    more = (scaling,) if scaling else ()
    remedies.append(_CLAIMS.get(next((words for words in _CLAIMS if words in reason), "")) or facts.room())
    yield Link("scheduled", f"no: {message}", None, True, more, "; ".join(remedies))


def _prepared(facts: Facts, _: str) -> Iterator[Link]:
    """Yield the links before the containers: sandbox, volumes, init containers."""
    for each in listing(facts.pod, "status", "initContainerStatuses"):
        if not _is_beside(facts, each):
            yield from _init(facts, each)
    if not _is_creating(facts):
        return
    if trouble := pod_status.trouble(facts.events):
        remedy = "Create what it mounts, or make its server reachable; Kubernetes tries again by itself"
        if text(trouble, "reason") in pod_status.UNWELL:
            remedy = "The node is not well: see `kubectl describe node`"
        yield Link("prepared", f"no: {_words(trouble)}", pod_status.event_time(trouble), True, remedy=remedy)


def _is_beside(facts: Facts, init: Values) -> bool:
    """Return whether this is a sidecar that has started, or ended with the pod."""
    if not pod_status.is_sidecar(facts.pod, text(init, "name")):
        return False
    return bool(init.get("started") or mapping(init, "state", "terminated")) or _has_begun(facts)


def _init(facts: Facts, each: Values) -> Iterator[Link]:
    """Yield the link of one init container."""
    init, waiting = text(each, "name"), mapping(each, "state", "waiting")
    ended = mapping(each, "state", "terminated")
    if ended.get("exitCode") == 0:
        yield Link("prepared", init, pod_status.epoch(ended.get("finishedAt")))
    elif ended or waiting.get("reason") == "CrashLoopBackOff":
        how = pod_status.how_it_ended(ended or mapping(each, "lastState", "terminated"))
        words = facts.words(init, not ended)
        remedy = "Correct the repository or its revision" if init.startswith("clone-") else ""
        yield Link("prepared", f"no: {init}: {how}", None, True, words, remedy)
    elif waiting.get("reason") in pod_status.NO_IMAGE:
        yield _no_image(facts, init, waiting)
    elif waiting.get("reason") in _NOT_STARTED:
        yield Link("prepared", f"no: {init}: {_why_not_started(waiting)}", None, True)
    elif mapping(each, "state", "running"):
        yield Link("prepared", f"{init} is running", None, True)


def _pulled(facts: Facts, _: str) -> Iterator[Link]:
    container = pod_status.container_status(facts.pod, facts.container)
    waiting = mapping(container, "state", "waiting")
    if waiting.get("reason") in pod_status.NO_IMAGE:
        yield _no_image(facts, facts.container, waiting)
        return
    image = str(facts.recorded.get("image"))
    if text(container, "imageID") or mapping(container, "lastState", "terminated"):
        event = _pull_event(facts, image)
        took = text(event, "message").partition(" in ")[2].partition(" ")[0]
        yield Link("pulled", f"{image}, in {took}" if took else image, pod_status.event_time(event))
        return
    if _is_creating(facts) or not container:
        begun = pod_status.event_time(facts.event("Pulling"))
        yield Link("pulled", "not yet: being pulled" if begun else "not yet", begun, True)


def _pull_event(facts: Facts, image: str) -> Values:
    every = [each for each in facts.events if text(each, "reason") == "Pulled"]
    return next((each for each in reversed(every) if f'"{image}"' in text(each, "message")), _NOTHING)


def _no_image(facts: Facts, container: str, waiting: Values) -> Link:
    image = next((str(each["image"]) for each in _containers(facts.pod) if each["name"] == container), "?")
    causes = [text(each, "message") for each in facts.events if text(each, "reason") == "Failed"]
    message = [each for each in causes if image in each] or [str(waiting.get("message") or "")]
    remedy = next(
        (remedy for words, remedy in _PULLS if any(word in message[-1].lower() for word in words)),
        _PULLS[0][1],
    )
    if waiting.get("reason") == "ErrImageNeverPull":
        message, remedy = [], 'Put it on the node, or leave out image_pull_policy("Never")'
    more = tuple(printable(each, _LONGEST) for each in message[-1:] if each)
    return Link("pulled", f"no: {image}: {waiting.get('reason')}", None, True, more, remedy)


def _started(facts: Facts, _: str) -> Iterator[Link]:
    container = pod_status.container_status(facts.pod, facts.container)
    waiting = mapping(container, "state", "waiting")
    if waiting.get("reason") in _NOT_STARTED:
        what = f"no: {_why_not_started(waiting)}"
        remedies = [remedy for words, remedy in _STARTS_NOT if words in what]
        remedy = remedies[0] if remedies else "Correct its command, or what its variables name"
        yield Link("started", what, None, True, remedy=remedy)
        return
    ended = mapping(container, "state", "terminated") or mapping(container, "lastState", "terminated")
    if ended.get("reason") in _NEVER_RAN:
        what = printable(f"no: {pod_status.in_words(ended) or ended['reason']}", _LONGEST)
        yield Link("started", what, None, True, remedy="Correct its command, or its image")
        return
    begun = [mapping(container, which, kind).get("startedAt") for which, kind in _STARTS]
    moment = next((each for each in begun if each), None)
    if moment:
        again = int(container.get("restartCount") or 0)
        times = f", {again} time{'s' if again > 1 else ''} again" if again else ""
        yield Link("started", f"container {facts.container}{times}", pod_status.epoch(moment))


_STARTS = (("state", "running"), ("state", "terminated"), ("lastState", "terminated"))


def _has_begun(facts: Facts) -> bool:
    return any(
        mapping(pod_status.container_status(facts.pod, facts.container), which, kind)
        for which, kind in _STARTS
    )


def _why_not_started(waiting: Values) -> str:
    return printable(f"{waiting['reason']}: {pod_status.in_words(waiting)}".rstrip(": "), _LONGEST)


def _now(facts: Facts, name: str) -> Iterator[Link]:
    pod, container = facts.pod, pod_status.container_status(facts.pod, facts.container)
    status = pod_status.status(facts.path, facts.container, pod)
    logs = f"`symphony logs {name} {facts.path}` shows its whole output"
    again = facts.job_status[1] if facts.job_status is not None else f"`symphony up {name}` starts it again"
    match status.state:
        case "running" if status.ready:
            last = f" (last: {status.last})" if status.last else ""
            yield Link("ready", f"running{last}", status.since)
            yield from _exposed(facts)
        case "running":
            why = _words(facts.event("Unhealthy")) or "its container reports that it is not ready"
            yield Link("ready", f"no: {why}", status.since, True)
        case "completed":
            remedy = "Give it more with resource_limit(memory=...)" if status.why else ""
            yield Link(
                "exit", f"exit 0{', but ' if status.why else ''}{status.why}", status.since, remedy=remedy
            )
        case "lost":
            yield Link("lost", status.why, status.since, True, remedy=again)
        case "unknown":
            node = text(pod, "spec", "nodeName")
            then = f"its {facts.keeper} makes another pod" if facts.keeper else again
            remedy = f"If that machine is off for good: `kubectl delete node {node}`, then {then}"
            yield Link("ready", f"unknown: {status.why}", status.since, True, remedy=remedy)
        case "stopped":
            yield Link("ended", status.why, status.since, True)
        case _:
            yield _exit(
                facts, container, status.why, logs if status.state == "waiting" else f"{logs}; {again}"
            )


def _exposed(facts: Facts) -> Iterator[Link]:
    """Yield the outside addresses of the pod's services."""
    for service in facts.services:
        if where := service_address.summary(service, text(facts.pod, "status", "hostIP")):
            late = service_address.PENDING in where
            remedy = (
                "The cluster has nothing that makes load balancers, or is still making this one"
                if late
                else ""
            )
            yield Link("exposed", where, None, late, remedy=remedy)


def _exit(facts: Facts, container: Values, why: str, remedy: str) -> Link:
    """Return the link of a process that failed, or fails again and again."""
    ended, last = mapping(container, "state", "terminated"), mapping(container, "lastState", "terminated")
    how = pod_status.how_it_ended(ended or last) or why
    if (ended or last).get("reason") == "OOMKilled":
        remedy = f"Give it more with resource_limit(memory=...); {remedy}"
    back_off = mapping(container, "state", "waiting").get("reason") == "CrashLoopBackOff"
    loop = ", again and again; Kubernetes waits before each restart" if back_off else ""
    moment = pod_status.epoch((ended or last).get("finishedAt"))
    return Link("exit", f"{how}{loop}", moment, True, facts.words(facts.container, not ended), remedy)


def _is_creating(facts: Facts) -> bool:
    reason = mapping(pod_status.container_status(facts.pod, facts.container), "state", "waiting").get(
        "reason"
    )
    return reason in ("ContainerCreating", "PodInitializing")


def _containers(pod: Values | None) -> list[Values]:
    return [*listing(pod, "spec", "initContainers"), *listing(pod, "spec", "containers")]


def _words(event: Values) -> str:
    message = ": ".join(part for part in (text(event, "reason"), text(event, "message")) if part)
    return printable(" ".join(message.split()), _LONGEST)
