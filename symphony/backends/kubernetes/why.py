"""Explains the state of a process on Kubernetes as steps: created, scheduled, pulled, started, now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symphony.backends.kubernetes import admission, inventory, pod_status, reasons, supervisor
from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.logs import last_lines
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.backends.kubernetes.reasons import JobStatus
from symphony.backends.observe import Link, ProcessStatus, Recorded
from symphony.errors import SymphonyError
from symphony.placement.pool import POOL_LABEL
from symphony.plan.names import printable

_LONGEST = 400
# How many of a log's last lines a link shows.
_LINES = 5
# Seconds that kubelet takes to end a container, beside its grace.
_SECONDS_TO_END = 5
_NEVER_RAN = ("StartError", "ContainerCannotRun")
_NOTHING: Values = {}
_SUPERVISOR_IMAGE = "Set symphony:supervisorImage to an image with Python 3 that the nodes can pull"
# Words in a message about pulling an image -> the remedy.
_PULLS = (
    (("not found", "manifest unknown"), "Push the image, or correct its name"),
    (
        ("unauthorized", "denied", "authorization", "401", "403"),
        "Create a Secret with the registry's credentials, and name it in symphony:pullSecrets",
    ),
    (
        ("no such host", "connection refused", "timeout", "i/o", "no route"),
        "Correct the host in the image's name, or the network: the node cannot reach the registry",
    ),
)
# Words in a message of the autoscaler -> the remedy.
_SCALING = {
    "quota": "Request a higher quota for the region",
    "max node group size reached": "Raise max of the pool",
    "max cluster limit reached": "Raise the limits of the cluster",
}
# Words in a scheduler's message about volume claims, for which no other node would help -> the remedy.
_CLAIMS = {
    "not found": "Create that claim in the namespace, or correct its name in pod_yml",
    "unbound": "Run `kubectl describe pvc`, which shows why the claim has no volume",
    "being deleted": "Wait until the claim is deleted, and create it again",
}
# Words in a node's message about a container that it does not start -> the remedy.
_STARTS_NOT = {
    "will run as root": "Set runAsUser in the securityContext of container_yml, or use an image with a USER",
    "not found": "Create the Secret or ConfigMap that its variables refer to, or correct the reference",
}
# The fields with the times of a container's starts, newest first.
_STARTS = (("state", "running"), ("state", "terminated"), ("lastState", "terminated"))


@dataclass(frozen=True)
class Facts:
    """The facts about a process, read before the chain is built, which sends no requests except on demand.

    Attributes:
        path: The path of the process.
        recorded: The inputs and outputs of the process in the state.
        pod: The pod; None if it does not exist.
        events: The events of the pod, or of the Job that should create it, oldest first.
        services: The Services that select the pod.
        last_lines: Returns the last lines of a container's log, or of its previous start.
        schedulable: Returns the remedy for a pod that cannot be scheduled.
        controller: `Job` if a Job creates the pod, else empty.
        held: The status of a process that waits for others.
        unsupervised: Why the supervisor does not run; empty if it may run.
        job_status: (state, reason, since) from its Job, if the pod is missing or has ended, and the Job is
            complete or creates another.
    """

    path: str
    recorded: Mapping[str, Any]
    pod: Values | None
    events: Sequence[Values]
    services: Sequence[Values]
    last_lines: Callable[[str, bool], tuple[str, ...]]
    schedulable: Callable[[], str]
    controller: str = ""
    job_status: JobStatus | None = None
    held: ProcessStatus | None = None
    unsupervised: str = ""

    @property
    def container(self) -> str:
        return str(self.recorded["container_name"])

    @property
    def status(self) -> Values:
        """The status of the container of the process."""
        return pod_status.container_status(self.pod, self.container)

    @property
    def waiting(self) -> Values:
        return mapping(self.status, "state", "waiting")

    @property
    def is_creating(self) -> bool:
        return self.waiting.get("reason") in ("ContainerCreating", "PodInitializing")

    def event(self, *reasons: str) -> Values:
        """Return the newest event with any of these reasons; empty if there is none."""
        events = [event for event in self.events if text(event, "reason") in reasons]
        return events[-1] if events else _NOTHING


def read_chain(client: Client, recorded: Recorded, path: str, name: str) -> list[Link]:
    """Return the steps of a process; a cluster that does not answer is a broken step.

    Args:
        client: The cluster.
        recorded: The record of the experiment in the state.
        path: The path of the process.
        name: The name of the experiment, for the remedies.
    """
    facts = recorded.processes.get(path)
    try:
        if facts is None:
            return [_not_created(client, recorded, path, name)]
        return list(chain(_read(client, recorded.physical_name, path, facts), name))
    except SymphonyError as error:
        planned = [Link("planned", _plan_in_words(facts))] if facts is not None else []
        return [*planned, Link("reached", f"no: {error.what}", broken=True, remedy=error.remedy)]


def _read(client: Client, namespace: str, path: str, recorded: Mapping[str, Any]) -> Facts:
    planned = str(recorded["pod_name"])
    names = filter(None, (planned, text(recorded, "supervisor")))
    pods = {name: pod for name in names if (pod := inventory.pod_of(client, namespace, name))}
    pod = pods.get(planned)
    controller = text(recorded, "controller", "kind")
    name = text(pod, "metadata", "name") or planned
    uid = text(pod, "metadata", "uid") or text(recorded, "uid")
    kind = controller if pod is None and controller else workloads.POD

    def lines(container: str, previous: bool) -> tuple[str, ...]:
        return tuple(last_lines(client, namespace, name, container, _LINES, previous=previous))

    job_statuses = reasons.job_statuses(client, namespace, [recorded], pods)
    trouble = pod_status.supervisor_trouble(recorded, pods, job_statuses)
    held = None
    if pod is not None and supervisor.is_gated(pod):
        status = pod_status.status(path, str(recorded["container_name"]), pod)
        held = pod_status.gated_status(status, recorded, trouble)
    services = client.items(path_of("services", namespace), labelSelector=labels.OURS)
    return Facts(
        path=path,
        recorded=recorded,
        pod=pod,
        events=_events(client, namespace, kind, name, uid),
        services=[body for body in services if text(body, "spec", "selector", labels.POD) == planned],
        last_lines=lines,
        schedulable=lambda: _schedulable(client, pod or {}),
        controller=controller,
        held=held,
        unsupervised=trouble,
        job_status=job_statuses.get(planned),
    )


def _events(client: Client, namespace: str, kind: str, name: str, uid: str) -> list[Values]:
    """Return the events of the pod, or of the Job that should create it, without older namesakes'."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    events = reasons.events_of(client, namespace, selector)
    own = [event for event in events if text(event, "involvedObject", "uid") in ("", uid)]
    return sorted(own, key=lambda event: text(event, "lastTimestamp") or text(event, "eventTime"))


def _schedulable(client: Client, pod: Values) -> str:
    """Return the remedy for an unschedulable pod; general advice if the user may not list nodes."""
    # Imported here: only unschedulable pods need it.
    from symphony.backends.kubernetes import nodes

    try:
        bodies = client.items(path_of("nodes"))
        pods = client.items(path_of("pods"), fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except Refused:
        return nodes.GENERAL_REMEDY
    return nodes.remedy_of(pod, bodies, pods)


def _not_created(client: Client, recorded: Recorded, path: str, name: str) -> Link:
    """Return the step of a process that is declared but not in the state."""
    namespace = recorded.physical_name
    if path in reasons.with_pods(client, namespace):
        return Link(
            "created", f"yes, but {reasons.UNRECORDED}", broken=True, remedy=f"Run `symphony up {name}`"
        )
    refusal = admission.refusals(client, namespace, recorded.not_created).get(path, "")
    remedy = f"`symphony up {name}` tries again and shows the reason"
    if refusal:
        remedy = f"Correct the request, stop other pods in {namespace}, or ask for a higher quota; {remedy}"
    return Link("created", f"no: {refusal or reasons.UNKNOWN}", broken=True, remedy=remedy)


def chain(facts: Facts, name: str) -> Iterator[Link]:
    """Yield the steps of a process; name: the experiment's, for the remedies."""
    yield Link("planned", _plan_in_words(facts.recorded))
    if facts.job_status is not None and facts.job_status[0] == "completed":
        gone = ", and its pod no longer exists" if facts.pod is None else ""
        yield Link("exit", f"exit 0: its {facts.controller} is complete{gone}", facts.job_status[2])
        return
    for step in (_created, _scheduled, _prepared, _pulled, _started, _now):
        for link in step(facts, name):
            yield link
            if link.broken:
                return
    if facts.unsupervised:
        of_image = (*pod_status.NO_IMAGE, *pod_status.NOT_STARTED)
        remedy = _SUPERVISOR_IMAGE if any(reason in facts.unsupervised for reason in of_image) else ""
        yield Link("supervised", f"no: {facts.unsupervised}", None, True, remedy=remedy)


def _plan_in_words(recorded: Mapping[str, Any]) -> str:
    """Return `busybox:1, 500m cpu, 1Gi memory, pool gpu, on nodes with disk=ssd`."""
    amounts = {**mapping(recorded, "resources", "limits"), **mapping(recorded, "resources", "requests")}
    selector = dict(mapping(recorded, "pod", "nodeSelector"))
    pool = selector.pop(POOL_LABEL, "")
    parts = [str(recorded.get("image"))]
    parts += [f"{amount} {kind.rpartition('/')[2]}" for kind, amount in amounts.items()]
    parts += [f"pool {pool}"] if pool else []
    parts += [f"on nodes with {key}={label}" for key, label in selector.items()]
    return ", ".join(parts)


def _created(facts: Facts, name: str) -> Iterator[Link]:
    if facts.pod is not None:
        created = pod_status.epoch(text(facts.pod, "metadata", "creationTimestamp"))
        yield Link("created", f"pod {text(facts.pod, 'metadata', 'name')}", created)
    elif refused := facts.event("FailedCreate"):
        remedy = "Kubernetes retries once the cause is fixed"
        moment = pod_status.event_time(refused)
        yield Link("created", f"no: {reasons.refusal(refused)}", moment, True, remedy=remedy)
    elif facts.job_status is not None:
        yield Link("created", f"yes, but its pod no longer exists: {facts.job_status[1]}", None, True)
    else:
        lines = [
            _event_line(event)
            for event in facts.events
            if text(event, "reason") not in ("Scheduled", "Pulled")
        ]
        remedy = f"`symphony up {name}` re-creates it"
        yield Link("created", "yes, but the pod no longer exists", None, True, tuple(lines[-3:]), remedy)


def _scheduled(facts: Facts, name: str) -> Iterator[Link]:
    if (held := facts.held) is not None:
        others = [wait.rpartition(" (")[0] for wait in held.waits_for]
        # The text begins with the dependency that failed first.
        failed = [path for path in others if held.why.startswith(f"{path} ")] or others
        remedy = f"`symphony why {name} {failed[0]}` shows more" if held.state == "blocked" and failed else ""
        if any(reason in held.why for reason in pod_status.NO_IMAGE):
            remedy = _SUPERVISOR_IMAGE
        yield Link(held.state, held.why, held.since, True, remedy=remedy)
        return
    condition = pod_status.condition(facts.pod, "PodScheduled")
    if node := text(facts.pod, "spec", "nodeName"):
        yield Link("scheduled", f"on {node}", pod_status.epoch(condition.get("lastTransitionTime")))
        return
    why = pod_status.in_short(text(condition, "message") or "the scheduler has not answered yet")
    scaling = _event_line(facts.event("NotTriggerScaleUp", "FailedScaleUp", "TriggeredScaleUp"))
    remedies = [remedy for words, remedy in _SCALING.items() if words in scaling.lower()]
    remedies.append(_remedy(_CLAIMS, why) or facts.schedulable())
    more = (scaling,) if scaling else ()
    yield Link("scheduled", f"no: {printable(why, _LONGEST)}", None, True, more, "; ".join(remedies))


def _prepared(facts: Facts, _: str) -> Iterator[Link]:
    """Yield the steps before the containers start: sandbox, volumes, init containers."""
    for init in listing(facts.pod, "status", "initContainerStatuses"):
        if not _is_beside(facts, init):
            yield from _init(facts, init)
    trouble = pod_status.trouble(facts.events) if facts.is_creating else _NOTHING
    if trouble:
        remedy = (
            "Create the volume or Secret that it mounts, or make its server reachable; Kubernetes retries"
        )
        if text(trouble, "reason") in pod_status.SANDBOX_FAILURES:
            remedy = "Run `kubectl describe node`: the node has a problem"
        what = f"no: {_event_line(trouble)}"
        yield Link("prepared", what, pod_status.event_time(trouble), True, remedy=remedy)


def _is_beside(facts: Facts, init: Values) -> bool:
    """Return whether an init container is a sidecar that has started, or ended with the pod."""
    if not pod_status.is_sidecar(facts.pod, text(init, "name")):
        return False
    has_begun = any(mapping(facts.status, *field) for field in _STARTS)
    return bool(init.get("started") or mapping(init, "state", "terminated")) or has_begun


def _init(facts: Facts, status: Values) -> Iterator[Link]:
    name, waiting = text(status, "name"), mapping(status, "state", "waiting")
    ended = mapping(status, "state", "terminated")
    if ended.get("exitCode") == 0:
        yield Link("prepared", name, pod_status.epoch(ended.get("finishedAt")))
    elif ended or waiting.get("reason") == "CrashLoopBackOff":
        how = pod_status.how_it_ended(ended or mapping(status, "lastState", "terminated"))
        lines = facts.last_lines(name, not ended)
        remedy = "Correct the repository or its revision" if name.startswith("clone-") else ""
        yield Link("prepared", f"no: {name}: {how}", None, True, lines, remedy)
    elif waiting.get("reason") in pod_status.NO_IMAGE:
        yield _no_image(facts, name, waiting)
    elif waiting.get("reason") in pod_status.NOT_STARTED:
        yield Link("prepared", f"no: {name}: {_why_not_started(waiting)}", None, True)
    elif mapping(status, "state", "running"):
        yield Link("prepared", f"{name} is running", None, True)


def _pulled(facts: Facts, _: str) -> Iterator[Link]:
    if facts.waiting.get("reason") in pod_status.NO_IMAGE:
        yield _no_image(facts, facts.container, facts.waiting)
        return
    image = text(facts.recorded, "image")
    if text(facts.status, "imageID") or mapping(facts.status, "lastState", "terminated"):
        pulls = [event for event in facts.events if text(event, "reason") == "Pulled"]
        pull = next((event for event in reversed(pulls) if f'"{image}"' in text(event, "message")), _NOTHING)
        took = text(pull, "message").partition(" in ")[2].partition(" ")[0]
        yield Link("pulled", f"{image}, in {took}" if took else image, pod_status.event_time(pull))
    elif facts.is_creating or not facts.status:
        begun = pod_status.event_time(facts.event("Pulling"))
        yield Link("pulled", "not yet: the image is being pulled" if begun else "not yet", begun, True)


def _no_image(facts: Facts, container: str, waiting: Values) -> Link:
    image = pod_status.image_of(facts.pod, container)
    failures = [text(event, "message") for event in facts.events if text(event, "reason") == "Failed"]
    causes = [message for message in failures if image in message] or [text(waiting, "message")]
    remedy = next(
        (remedy for words, remedy in _PULLS if any(word in causes[-1].lower() for word in words)),
        _PULLS[0][1],
    )
    if waiting.get("reason") == "ErrImageNeverPull":
        causes, remedy = [], 'Load the image onto the node, or remove image_pull_policy("Never")'
    more = tuple(printable(cause, _LONGEST) for cause in causes[-1:] if cause)
    return Link("pulled", f"no: {image}: {waiting.get('reason')}", None, True, more, remedy)


def _started(facts: Facts, _: str) -> Iterator[Link]:
    if facts.waiting.get("reason") in pod_status.NOT_STARTED:
        what = f"no: {_why_not_started(facts.waiting)}"
        remedy = _remedy(_STARTS_NOT, what) or "Correct its command, or the references of its variables"
        yield Link("started", what, None, True, remedy=remedy)
        return
    ended = mapping(facts.status, "state", "terminated") or mapping(facts.status, "lastState", "terminated")
    if ended.get("reason") in _NEVER_RAN:
        what = printable(f"no: {pod_status.in_words(ended) or ended['reason']}", _LONGEST)
        yield Link("started", what, None, True, remedy="Correct its command, or its image")
        return
    times = [mapping(facts.status, *field).get("startedAt") for field in _STARTS]
    if started := next(filter(None, times), None):
        count = int(facts.status.get("restartCount") or 0)
        restarts = f", restarted {count} time{'s' if count > 1 else ''}" if count else ""
        yield Link("started", f"container {facts.container}{restarts}", pod_status.epoch(started))


def _why_not_started(waiting: Values) -> str:
    return printable(f"{waiting['reason']}: {pod_status.in_words(waiting)}".rstrip(": "), _LONGEST)


def _now(facts: Facts, name: str) -> Iterator[Link]:
    status = pod_status.status(facts.path, facts.container, facts.pod)
    logs = f"`symphony logs {name} {facts.path}` shows its whole output"
    again = facts.job_status[1] if facts.job_status is not None else f"`symphony up {name}` restarts it"
    match status.state:
        case "running" if status.ready:
            before = mapping(facts.status, "lastState", "terminated")
            last = f" (last: {status.last}{_by_probe(facts, before)})" if status.last else ""
            yield Link("ready", f"running{last}", status.since)
            yield from _exposed(facts)
        case "running":
            why = _event_line(facts.event("Unhealthy")) or "its container reports that it is not ready"
            yield Link("ready", f"no: {why}", status.since, True)
        case "completed" if status.why == pod_status.CHILD_KILLED:
            remedy = "Raise its memory with resource_limit(memory=...)"
            yield Link("exit", f"exit 0, but {status.why}", status.since, remedy=remedy)
        case "completed":
            yield (
                Link("ended", status.why, status.since)
                if status.why
                else Link("exit", "exit 0", status.since)
            )
        case "lost":
            yield Link("lost", status.why, status.since, True, remedy=again)
        case "unknown":
            node = text(facts.pod, "spec", "nodeName")
            then = f"its {facts.controller} creates another pod" if facts.controller else again
            remedy = f"If that machine is lost for good, run `kubectl delete node {node}`; then {then}"
            yield Link("ready", f"unknown: {status.why}", status.since, True, remedy=remedy)
        case "stopped":
            yield Link("ended", f"stopped: {status.why}", status.since, True, remedy=again)
        case _:
            yield _exit(facts, status.why, logs if status.state == "waiting" else f"{logs}; {again}")


def _exposed(facts: Facts) -> Iterator[Link]:
    """Yield the addresses of the pod's services, also of those inside the cluster only."""
    for service in facts.services:
        if address := reasons.service_summary(service, text(facts.pod, "status", "hostIP")):
            is_pending = reasons.PENDING in address
            remedy = "Wait; if no address comes, the cluster has no controller for load balancers"
            yield Link("exposed", address, None, is_pending, remedy=remedy if is_pending else "")


def _exit(facts: Facts, why: str, remedy: str) -> Link:
    """Return the step of a process that has failed, or fails at every restart."""
    current = mapping(facts.status, "state", "terminated")
    ended = current or mapping(facts.status, "lastState", "terminated")
    if ended.get("reason") == "OOMKilled":
        remedy = f"Raise its memory with resource_limit(memory=...); {remedy}"
    back_off = facts.waiting.get("reason") == "CrashLoopBackOff"
    loop = ", repeatedly; Kubernetes waits longer before each restart" if back_off else ""
    what = f"{pod_status.how_it_ended(ended) or why}{loop}{_by_probe(facts, ended)}"
    moment = pod_status.epoch(ended.get("finishedAt"))
    return Link("exit", what, moment, True, facts.last_lines(facts.container, not current), remedy)


def _by_probe(facts: Facts, ended: Values) -> str:
    """Return the failure of the liveness probe for which kubelet ended a process; empty for another end."""
    probed = [event for event in facts.events if text(event, "message").startswith("Liveness probe failed")]
    failed = pod_status.event_time(probed[-1]) if probed else None
    end = pod_status.epoch(ended.get("finishedAt"))
    grace = mapping(facts.pod, "spec").get("terminationGracePeriodSeconds") or 0
    is_cause = failed is not None and end is not None and 0 <= end - failed <= grace + _SECONDS_TO_END
    return f": {printable(text(probed[-1], 'message').rstrip(': '), _LONGEST)}" if is_cause else ""


def _remedy(remedies: Mapping[str, str], why: str) -> str:
    """Return the remedy for the first known words in a reason."""
    return next((remedy for words, remedy in remedies.items() if words in why), "")


def _event_line(event: Values) -> str:
    parts = (text(event, "reason"), text(event, "message"))
    return printable(" ".join(": ".join(filter(None, parts)).split()), _LONGEST)
