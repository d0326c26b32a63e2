"""Reads the status of a process from its pod: the one place that knows Kubernetes' words. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from symphony.backends.kubernetes.api.fields import listing, mapping, text
from symphony.backends.observe import ProcessStatus, State
from symphony.plan.names import printable

Pod = Mapping[str, Any]
_Container = Mapping[str, Any]

LONGEST = 300
_LINES = 3
# What containerd says of a program that is not there, at the end of a chain of causes.
_MISSING = re.compile(r'exec: "([^"]+)": (?:executable file not found|stat [^:]+: no such file)')
# The scheduler's own words, without what it says of evicting other pods.
_SCHEDULER = re.compile(r"0/\d+ nodes are available: (.+?)(?:\. |\.$|$)")
# Where a container is, which is known.
_WHERE = re.compile(r' \(pod: "[^"]*", container: [^)]*\)')
_NOTHING: Mapping[str, Any] = {}
# Why a pod ended although none of its programs did: the machine's doing, not the experiment's.
_TAKEN = ("Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "DeletionByPodGC")
CHILD_KILLED = "a process that it started was killed: out of memory"
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
# Waiting does not cure these by itself.
_HOPELESS = (
    *NO_IMAGE,
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
# What keeps a pod that has a machine from its containers, and only events tell; and what comes after it.
_UNMOUNTED = ("FailedMount", "FailedAttachVolume")
UNWELL = ("FailedCreatePodSandBox", "NetworkNotReady")
_PAST_IT = ("Pulling", "Pulled", "Created", "Started")


def status(
    path: str, container: str, pod: Pod | None, events: Mapping[str, str] | None = None
) -> ProcessStatus:
    """Return the status of the process that a container runs; None is a pod that is gone.

    events: the name of a pod -> its last event that says what keeps it from running.
    """
    if pod is None:
        return ProcessStatus(path, "lost", ready=False, why="its pod is gone")
    result = container_status(pod, container)
    restarts = int(result.get("restartCount") or 0)
    last = how_it_ended(mapping(result, "lastState", "terminated"))
    state, why, since = _condition(
        pod, container, result, (events or {}).get(str(pod["metadata"]["name"]), "")
    )
    return ProcessStatus(
        path=path,
        state=state,
        ready=state == "running" and bool(result.get("ready")),
        restarts=restarts,
        why=printable(" ".join(why.split()), LONGEST),
        since=since,
        last=last if state in ("running", "waiting") and restarts else "",
        words=_words(result) if state in ("failed", "waiting") else (),
        node=text(pod, "spec", "nodeName"),
    )


def is_good(pod: Pod) -> bool:
    """Return whether the next `up` leaves this pod alone: all its processes wait, run or are completed."""
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    return all(
        status(name, name, pod).state in ("running", "waiting", "completed", "unknown") for name in names
    )


def is_hopeless(pod: Pod) -> bool:
    """Return whether waiting rarely starts the containers that do not run."""
    waiting = [mapping(each, "state", "waiting") for each in _every(pod)]
    if any(each.get("reason") in _HOPELESS for each in waiting) or _unscheduled(pod):
        return True
    running = [each for each in _every(pod) if mapping(each, "state", "running")]
    return any(_silent_node(pod, each) for each in running)


def lacks_image(pod: Pod) -> bool:
    """Return whether an image of the pod cannot be pulled."""
    return any(mapping(each, "state", "waiting").get("reason") in NO_IMAGE for each in _every(pod))


def needs_events(pod: Pod) -> bool:
    """Return whether only an event can say why its containers do not start."""
    waiting = [str(mapping(each, "state", "waiting").get("reason")) for each in _every(pod)]
    creating = any(each in ("ContainerCreating", "PodInitializing") for each in waiting)
    return creating and bool(text(pod, "spec", "nodeName"))


def trouble(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the event of a pod that says why its containers do not start, an empty one for none.

    Events stay for an hour: a volume that was late counts until the pod has come further.
    """
    known = [each for each in events if text(each, "reason") in (*_UNMOUNTED, *UNWELL, *_PAST_IT)]
    last = max(known, key=lambda each: (event_time(each) or 0.0, _is_past_it(each)), default=_NOTHING)
    return _NOTHING if _is_past_it(last) else last


def _is_past_it(event: Mapping[str, Any]) -> bool:
    return text(event, "reason") in _PAST_IT


def event_time(event: Mapping[str, Any]) -> float | None:
    """Return when the cluster said this last, in seconds since the epoch."""
    return epoch(text(event, "lastTimestamp") or text(event, "eventTime"))


def is_sidecar(pod: Pod | None, name: str) -> bool:
    """Return whether an init container runs beside the containers and ends after them."""
    every = listing(pod, "spec", "initContainers")
    return any(each.get("name") == name and each.get("restartPolicy") == "Always" for each in every)


def ends(pod: Pod, container: str) -> list[Mapping[str, Any]]:
    """Return how the last starts of a container ended, the older one first."""
    result = container_status(pod, container)
    return [
        each
        for each in (mapping(result, "lastState", "terminated"), mapping(result, "state", "terminated"))
        if each
    ]


def epoch(text: object) -> float | None:
    """Return a time of the API server in seconds since the epoch, None for no time."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _condition(pod: Pod, name: str, container: _Container, event: str) -> tuple[State, str, float | None]:
    ended = mapping(container, "state", "terminated")
    running = mapping(container, "state", "running")
    if taken := _taken(pod, running=bool(running)):
        return taken
    if ended and _comes_again(pod, ended):
        return "waiting", f"to be started again after {_how(ended)}", epoch(ended.get("finishedAt"))
    if ended:
        moment = epoch(ended.get("finishedAt"))
        if ended.get("exitCode") != 0:
            return "failed", _how(ended), moment
        # The kernel killed a process that the program had started, and the program went on.
        return "completed", CHILD_KILLED if ended.get("reason") == "OOMKilled" else "", moment
    if pod["metadata"].get("deletionTimestamp"):
        return "stopped", "it is being ended", epoch(pod["metadata"]["deletionTimestamp"])
    if running:
        why = _silent_node(pod, container)
        return ("unknown" if why else "running"), why, epoch(running.get("startedAt"))
    if text(pod, "status", "phase") == "Failed":
        return "failed", _why_failed(pod), None
    return (
        "waiting",
        _why_waiting(pod, name, container, event),
        epoch(pod["metadata"].get("creationTimestamp")),
    )


def _comes_again(pod: Pod, ended: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes will start a container again that has ended."""
    if pod["metadata"].get("deletionTimestamp") or text(pod, "status", "phase") in ("Failed", "Succeeded"):
        return False
    policy = text(pod, "spec", "restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and ended.get("exitCode") != 0)


def _taken(pod: Pod, *, running: bool) -> tuple[State, str, float | None] | None:
    """Return the status of a pod that was lost with its machine, or evicted; None for others."""
    status = mapping(pod, "status")
    disrupted = condition(pod, "DisruptionTarget")
    gone = bool(pod["metadata"].get("deletionTimestamp")) or status.get("phase") == "Failed"
    if disrupted.get("status") == "True" and gone:
        why = str(disrupted.get("message") or disrupted.get("reason"))
        return "lost", why, epoch(disrupted.get("lastTransitionTime"))
    if status.get("reason") in _TAKEN and not running:
        return "lost", f"{status['reason']}: {status.get('message') or ''}".rstrip(": "), None
    return None


def _silent_node(pod: Pod, value: _Container) -> str:
    """Return why a container may not run although its status says so: its node is silent."""
    ready = condition(pod, "Ready")
    every = [bool(each.get("ready")) for each in listing(pod, "status", "containerStatuses")]
    doubted = ready.get("status") == "False" and not ready.get("reason")
    if value.get("ready") and all(every) and doubted:
        return f"its node {pod['spec'].get('nodeName')} does not answer"
    return ""


def _why_failed(pod: Pod) -> str:
    """Return why a pod failed before this container of it could run."""
    status = mapping(pod, "status")
    for each in listing(status, "initContainerStatuses"):
        ended = mapping(each, "state", "terminated")
        if ended and ended.get("exitCode") != 0 and not is_sidecar(pod, str(each["name"])):
            return f"{each['name']}: {_how(ended)}"
    return f"{status.get('reason') or 'Failed'}: {status.get('message') or ''}".rstrip(": ")


def _why_waiting(pod: Pod, name: str, value: _Container, event: str) -> str:
    if unscheduled := _unscheduled(pod):
        return unscheduled
    own = mapping(value, "state", "waiting")
    if own.get("reason") in _HOPELESS:
        return _waits_for(own, pod, name, value)
    for each in listing(pod, "status", "initContainerStatuses"):
        waiting = mapping(each, "state", "waiting")
        if waiting.get("reason") in _HOPELESS:
            return f"{each['name']}: {_waits_for(waiting, pod, str(each['name']), each)}"
    if not own:
        return "not scheduled yet" if not pod["spec"].get("nodeName") else "not started yet"
    words = _waits_for(own, pod, name, value)
    return f"{words}: {event}" if event else words


def _waits_for(waiting: Mapping[str, Any], pod: Pod, name: str, value: _Container) -> str:
    reason, message = str(waiting.get("reason") or "waiting"), in_words(waiting)
    if reason in NO_IMAGE:
        return f"{reason}: {_image(pod, name)}{_because(message)}"
    if reason == "CrashLoopBackOff":
        return f"{reason}: {_how(mapping(value, 'lastState', 'terminated'))}"
    return f"{reason}: {message}".rstrip(": ") if reason in _HOPELESS else reason


def _because(message: str) -> str:
    """Return the last cause in a chain such as `failed to pull: failed to resolve: not found`."""
    # containerd ends with the kind of an error of which it knows none.
    cause = message.rstrip('" .').removesuffix(": unknown").rpartition(": ")[2]
    return f": {cause}" if cause and cause != message else ""


def _image(pod: Pod, name: str) -> str:
    every = [*listing(pod, "spec", "containers"), *listing(pod, "spec", "initContainers")]
    return next((str(each["image"]) for each in every if each["name"] == name), "?")


def _unscheduled(pod: Pod) -> str:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return ""
    return f"{scheduled.get('reason')}: {in_short(str(scheduled.get('message') or ''))}".rstrip(": ")


def in_short(message: str) -> str:
    """Return what the scheduler says, without how many nodes there are and whether others could be evicted.

    >>> in_short("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. no")
    '1 Insufficient cpu, 2 untolerated taint {a: b}'
    >>> in_short('0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/1')
    'persistentvolumeclaim "data" not found'
    """
    found = _SCHEDULER.match(message)
    reasons = found[1] if found else message
    return reasons.replace("node(s) had ", "").replace("node(s) ", "")


def _how(ended: Mapping[str, Any]) -> str:
    """Return how a start ended with its last line: `exit 1: no such file`."""
    how = how_it_ended(ended)
    lines = _lines(ended)
    return f"{how}: {lines[-1]}" if lines else how


def _lines(ended: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in in_words(ended).splitlines() if line.strip()]


def in_words(ended: Mapping[str, Any]) -> str:
    """Return the message of a container that ended or could not start."""
    message = _WHERE.sub("", str(ended.get("message") or ""))
    missing = _MISSING.search(message)
    return f'the image has no program "{missing[1]}"' if missing else message


def _words(value: _Container) -> tuple[str, ...]:
    """Return the last lines of the start that failed last."""
    ended = mapping(value, "state", "terminated") or mapping(value, "lastState", "terminated")
    return tuple(printable(line, LONGEST) for line in _lines(ended)[-_LINES:])


def how_it_ended(ended: Mapping[str, Any]) -> str:
    """Return `exit 1`, `exit 139 (SIGSEGV)` or `out of memory, exit 137 (SIGKILL)`."""
    if not ended:
        return ""
    code, reason = int(ended.get("exitCode") or 0), str(ended.get("reason") or "")
    how = f"exit {code}"
    if code > 128 and (name := _signal_name(code - 128)):
        how += f" ({name})"
    if reason == "OOMKilled":
        return f"out of memory, {how}" if code else f"{how}, but {CHILD_KILLED}"
    return how if reason in ("", "Error", "Completed") else f"{reason}, {how}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def container_status(pod: Pod | None, name: str) -> _Container:
    every = listing(pod, "status", "containerStatuses")
    return next((each for each in every if each["name"] == name), _NOTHING)


def _every(pod: Pod) -> list[_Container]:
    return [*listing(pod, "status", "initContainerStatuses"), *listing(pod, "status", "containerStatuses")]


def condition(pod: Pod | None, kind: str) -> Mapping[str, Any]:
    return next((each for each in listing(pod, "status", "conditions") if each["type"] == kind), _NOTHING)
