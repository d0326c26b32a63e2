"""Reads the status of a process from its pod: what its conditions and its containers' reasons mean."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import probes
from symphony.backends.observe import ProcessStatus, State
from symphony.plan.names import printable

LONGEST = 300
_LINES = 3
# The end of containerd's chain of causes if the image lacks a program.
_MISSING = re.compile(r'exec: "([^"]+)": (?:executable file not found|stat [^:]+: no such file)')
# The scheduler's reasons, without its remarks on evicting other pods.
_SCHEDULER = re.compile(r"0/\d+ nodes are available: (.+?)(?:\. |\.$|$)")
# The pod and container in a message, which the reader knows.
_WHERE = re.compile(r' \(pod: "[^"]*", container: [^)]*\)')
_NOTHING: Values = {}
# Reasons for which the cluster ends a pod whose programs still run.
_LOST_REASONS = (
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "Preempting",
    "DeletionByPodGC",
)
CHILD_KILLED = "a child process was killed: out of memory"
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Reasons that waiting alone does not cure.
_HOPELESS = (*NO_IMAGE, *NOT_STARTED, "CrashLoopBackOff")
# Events that show why the containers of a scheduled pod do not start, and events that come after those.
_UNMOUNTED = ("FailedMount", "FailedAttachVolume")
SANDBOX_FAILURES = ("FailedCreatePodSandBox", "NetworkNotReady")
_PROGRESS = ("Pulling", "Pulled", "Created", "Started")
# The beginning of the reason for which a Job has no pod.
NOT_CREATED = "not created: "

# (state, reason, since)
_Condition = tuple[State, str, float | None]


def status(
    path: str, container: str, pod: Values | None, events: Mapping[str, str] | None = None
) -> ProcessStatus:
    """Return the status of the process in a container; pod None: the pod no longer exists.

    events: the last event that shows why a pod does not run, by the name of the pod.
    """
    if pod is None:
        return ProcessStatus(path, "lost", ready=False, why="its pod no longer exists")
    own = container_status(pod, container)
    ended, last = mapping(own, "state", "terminated"), mapping(own, "lastState", "terminated")
    restarts = int(own.get("restartCount") or 0)
    condition = _condition(pod, container, own, (events or {}).get(text(pod, "metadata", "name"), ""))
    state, why, since = (None if _ended_before(pod, ended) else _supervisor_condition(pod)) or condition
    lines = _lines(ended or last) if state in ("failed", "waiting") else []
    return ProcessStatus(
        path=path,
        state=state,
        ready=state == "running" and supervisor.is_ready(pod, own),
        restarts=restarts,
        why=printable(" ".join(why.split()), LONGEST),
        since=since,
        last=how_it_ended(last) if state in ("running", "waiting") and restarts else "",
        words=tuple(printable(line, LONGEST) for line in lines[-_LINES:]),
        node=text(pod, "spec", "nodeName"),
        exit_code=ended.get("exitCode") if state in ("completed", "failed") else None,
    )


def gated_status(status: ProcessStatus, process: Mapping[str, Any], trouble: str) -> ProcessStatus:
    """Return the status of a gated process with its waits, and with the supervisor's trouble if it has any.

    Args:
        status: The status of the process.
        process: The inputs and outputs of the process in the state.
        trouble: Why the supervisor does not run; empty if it may run.
    """
    waits = tuple(dict.fromkeys(f"{wait['path']} ({wait['condition']})" for wait in process["waits_for"]))
    why = status.why or f"for {', '.join(waits) or 'the other workers'}"
    if status.state == "waiting" and trouble:
        # It waits for the cluster, which an `up` reports as a failure.
        return replace(status, why=f"{why}; {trouble}")
    return replace(status, why=why, waits_for=waits)


def supervisor_trouble(
    process: Mapping[str, Any], pods: Mapping[str, Values], job_statuses: Mapping[str, _Condition]
) -> str:
    """Return why the supervisor, which starts and stops a process, does not run; empty if it may run.

    Args:
        process: The inputs and outputs of the process in the state.
        pods: The pods of the experiment, by the names of their manifests.
        job_statuses: The statuses of missing and ended pods with a Job, by the same names.
    """
    name = process.get("supervisor", "")
    if (pod := pods.get(name)) is not None:
        why = statuses(pod)[0].why if is_hopeless(pod) else ""
    else:
        why = job_statuses[name][1] if name in job_statuses else ""
        # Otherwise the Job is about to create the pod.
        why = why if why.startswith(NOT_CREATED) else ""
    return f"the supervisor {name}, which starts and stops it, does not run: {why}" if why else ""


def statuses(pod: Values) -> list[ProcessStatus]:
    """Return the status of every container of a pod."""
    names = [text(container, "name") for container in listing(pod, "spec", "containers")]
    return [status(name, name, pod) for name in names]


def is_good(pod: Values) -> bool:
    """Return whether the next `up` keeps this pod: each process waits, runs, has completed or is unknown."""
    return all(status.state in ("running", "waiting", "completed", "unknown") for status in statuses(pod))


def is_hopeless(pod: Values) -> bool:
    """Return whether the pod has trouble that waiting rarely cures, if it lasts.

    A container that runs and is not ready counts too, so a watch waits for a while first.
    """
    if supervisor.is_gated(pod):
        return False
    if any(reason in _HOPELESS for reason in _waiting_reasons(pod)) or _unscheduled_reason(pod):
        return True
    running = [own for own in _container_statuses(pod) if mapping(own, "state", "running")]
    return any(_silent_node(pod, own) or not supervisor.is_ready(pod, own) for own in running)


def lacks_image(pod: Values) -> bool:
    """Return whether an image of the pod cannot be pulled."""
    return any(reason in NO_IMAGE for reason in _waiting_reasons(pod))


def needs_events(pod: Values) -> bool:
    """Return whether only events can show why the pod's containers do not start."""
    creating = any(reason in ("ContainerCreating", "PodInitializing") for reason in _waiting_reasons(pod))
    return creating and bool(text(pod, "spec", "nodeName"))


def trouble(events: Iterable[Values]) -> Values:
    """Return the event that shows why a pod's containers do not start; empty if there is none.

    Events stay for an hour, so trouble counts only until the pod has come further.
    """
    reasons = (*_UNMOUNTED, *SANDBOX_FAILURES, *_PROGRESS)
    known = [event for event in events if text(event, "reason") in reasons]
    last = max(known, key=lambda event: (event_time(event) or 0.0, _shows_progress(event)), default=_NOTHING)
    return _NOTHING if _shows_progress(last) else last


def _shows_progress(event: Values) -> bool:
    return text(event, "reason") in _PROGRESS


def event_time(event: Values) -> float | None:
    """Return when an event was last reported, in seconds since the epoch."""
    return epoch(text(event, "lastTimestamp") or text(event, "eventTime"))


def is_sidecar(pod: Values | None, name: str) -> bool:
    """Return whether an init container is a sidecar, which runs beside the containers."""
    containers = listing(pod, "spec", "initContainers")
    return any(
        container.get("name") == name and container.get("restartPolicy") == "Always"
        for container in containers
    )


def ends(pod: Values, container: str, *, before: bool = False) -> list[Values]:
    """Return the ends of a container's last two starts, oldest first; before: only the older end."""
    own = container_status(pod, container)
    states = ("lastState",) if before else ("lastState", "state")
    return [ended for state in states if (ended := mapping(own, state, "terminated"))]


def epoch(moment: object) -> float | None:
    """Return a time of the API server in seconds since the epoch; None if it is not a time."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None


def _supervisor_condition(pod: Values) -> _Condition | None:
    """Return the condition of a pod that the supervisor gates or has stopped; None for other pods."""
    why, made = partial(supervisor.note, pod), epoch(text(pod, "metadata", "creationTimestamp"))
    if text(pod, "metadata", "deletionTimestamp"):
        again = why(supervisor.RESTARTS)
        return ("waiting", again, made) if again else None
    if supervisor.is_gated(pod):
        if blocked := why(supervisor.BLOCKED):
            return "blocked", blocked, None
        if stopped := why(supervisor.STOPPED):
            return _stop_condition(stopped, float(why(supervisor.STOPPED_AT) or 0) or None)
        return "waiting", why(supervisor.WHY), made
    # Only kubelet ends a pod, so one without a node stays Pending.
    is_over = text(pod, "status", "phase") == "Failed" or not text(pod, "spec", "nodeName")
    if (stopped := why(supervisor.STOPPED)) and is_over:
        return _stop_condition(stopped, float(why(supervisor.STOPPED_AT) or 0) or None)
    return None


def _ended_before(pod: Values, ended: Values) -> bool:
    """Return whether a process had already ended when its pod was stopped."""
    stopped, moment = supervisor.note(pod, supervisor.STOPPED_AT), epoch(ended.get("finishedAt"))
    return bool(stopped) and moment is not None and moment < float(stopped)


def _stop_condition(why: str, since: float | None) -> _Condition:
    """Return the condition of a pod that its experiment stopped: completed if the primary processes were."""
    if why == supervisor.COMPLETED:
        return "completed", f"stopped: {why}", since
    return "stopped", why, since


def _condition(pod: Values, name: str, own: Values, event: str) -> _Condition:
    ended, running = mapping(own, "state", "terminated"), mapping(own, "state", "running")
    deleted = text(pod, "metadata", "deletionTimestamp")
    if lost := _lost_condition(pod, running=bool(running)):
        return lost
    if ended:
        return _end_condition(pod, ended)
    if deleted:
        return "stopped", "being deleted", epoch(deleted)
    if running:
        since = epoch(running.get("startedAt"))
        if why := _silent_node(pod, own):
            return "unknown", why, since
        if supervisor.is_ready(pod, own):
            return "running", "", since
        pattern = supervisor.pattern_of(pod, name) if own.get("ready") else ""
        return "running", probes.why_not_ready(_spec_of(pod, name), pattern), since
    if text(pod, "status", "phase") == "Failed":
        return "failed", _why_failed(pod), None
    return "waiting", _why_waiting(pod, name, own, event), epoch(text(pod, "metadata", "creationTimestamp"))


def _end_condition(pod: Values, ended: Values) -> _Condition:
    moment = epoch(ended.get("finishedAt"))
    policy = text(pod, "spec", "restartPolicy") or "Always"
    if (
        not text(pod, "metadata", "deletionTimestamp")
        and text(pod, "status", "phase") not in ("Failed", "Succeeded")
        and (policy == "Always" or (policy == "OnFailure" and ended.get("exitCode") != 0))
    ):
        return "waiting", f"restarting after {_how(ended)}", moment
    if ended.get("exitCode") != 0:
        return "failed", _how(ended), moment
    # OOMKilled with exit 0: the kernel killed a child process, and the program continued.
    return "completed", CHILD_KILLED if ended.get("reason") == "OOMKilled" else "", moment


def _lost_condition(pod: Values, *, running: bool) -> _Condition | None:
    """Return the condition of a pod that was evicted or lost with its machine; None for other pods."""
    disrupted = condition(pod, "DisruptionTarget")
    gone = text(pod, "metadata", "deletionTimestamp") or text(pod, "status", "phase") == "Failed"
    if disrupted.get("status") == "True" and gone:
        why = text(disrupted, "message") or text(disrupted, "reason")
        return "lost", why, epoch(disrupted.get("lastTransitionTime"))
    if text(pod, "status", "reason") in _LOST_REASONS and not running:
        return "lost", _reason(mapping(pod, "status")), None
    return None


def _silent_node(pod: Values, own: Values) -> str:
    """Return why a container may not run although its status says so: its node does not answer."""
    ready = condition(pod, "Ready")
    are_ready = [bool(status.get("ready")) for status in listing(pod, "status", "containerStatuses")]
    doubted = ready.get("status") == "False" and not ready.get("reason")
    if own.get("ready") and all(are_ready) and doubted:
        return f"its node {text(pod, 'spec', 'nodeName')} does not answer"
    return ""


def _why_failed(pod: Values) -> str:
    """Return why a pod failed before its container could run."""
    for status in listing(pod, "status", "initContainerStatuses"):
        ended = mapping(status, "state", "terminated")
        if ended and ended.get("exitCode") != 0 and not is_sidecar(pod, str(status["name"])):
            return f"{status['name']}: {_how(ended)}"
    return _reason({"reason": "Failed", **mapping(pod, "status")})


def _why_waiting(pod: Values, name: str, own: Values, event: str) -> str:
    if unscheduled := _unscheduled_reason(pod):
        return unscheduled
    waiting = mapping(own, "state", "waiting")
    if waiting.get("reason") in _HOPELESS:
        return _hopeless_reason(pod, name, own)
    for init in listing(pod, "status", "initContainerStatuses"):
        if mapping(init, "state", "waiting").get("reason") in _HOPELESS:
            return f"{init['name']}: {_hopeless_reason(pod, str(init['name']), init)}"
    if not waiting:
        return "not started yet" if text(pod, "spec", "nodeName") else "not scheduled yet"
    reason = text(waiting, "reason") or "waiting"
    return f"{reason}: {event}" if event else reason


def _hopeless_reason(pod: Values, name: str, own: Values) -> str:
    """Return the reason of a container with trouble that waiting does not cure."""
    waiting = mapping(own, "state", "waiting")
    if waiting["reason"] == "CrashLoopBackOff":
        return f"CrashLoopBackOff: {_how(mapping(own, 'lastState', 'terminated'))}"
    if waiting["reason"] not in NO_IMAGE:
        return _reason(waiting)
    # The last cause in a chain such as `failed to pull: failed to resolve: not found`; containerd appends
    # `: unknown` to errors that it cannot classify.
    message = in_words(waiting)
    cause = message.rstrip('" .').removesuffix(": unknown").rpartition(": ")[2]
    return f"{waiting['reason']}: {image_of(pod, name)}{f': {cause}' if cause and cause != message else ''}"


def _spec_of(pod: Values, container: str) -> Values:
    return next((spec for spec in listing(pod, "spec", "containers") if spec["name"] == container), _NOTHING)


def image_of(pod: Values | None, container: str) -> str:
    """Return the image of a container."""
    specs = [*listing(pod, "spec", "containers"), *listing(pod, "spec", "initContainers")]
    return next((text(spec, "image") for spec in specs if spec["name"] == container), "?")


def _unscheduled_reason(pod: Values) -> str:
    scheduled = condition(pod, "PodScheduled")
    # SchedulingGated: the scheduler has not looked at the pod since its last gate was removed.
    if scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulingGated":
        return ""
    return f"{scheduled.get('reason')}: {in_short(text(scheduled, 'message'))}".rstrip(": ")


def in_short(message: str) -> str:
    """Return the scheduler's reasons without the number of nodes and the remarks on preemption.

    >>> in_short("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. no")
    '1 Insufficient cpu, 2 untolerated taint {a: b}'
    >>> in_short('0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/1')
    'persistentvolumeclaim "data" not found'
    """
    match = _SCHEDULER.match(message)
    reasons = match[1] if match else message
    return reasons.replace("node(s) had ", "").replace("node(s) ", "")


def _reason(status: Values) -> str:
    return f"{status.get('reason')}: {in_words(status)}".rstrip(": ")


def _how(ended: Values) -> str:
    """Return how a start ended, with its last line: `exit 1: no such file`."""
    return ": ".join([how_it_ended(ended), *_lines(ended)[-1:]])


def _lines(ended: Values) -> list[str]:
    return [line.strip() for line in in_words(ended).splitlines() if line.strip()]


def in_words(state: Values) -> str:
    """Return the message of a container that has ended or could not start, shortened."""
    message = _WHERE.sub("", text(state, "message"))
    missing = _MISSING.search(message)
    return f'the image has no program "{missing[1]}"' if missing else message


def how_it_ended(ended: Values) -> str:
    """Return `exit 1`, `exit 139 (SIGSEGV)` or `out of memory, exit 137 (SIGKILL)`."""
    if not ended:
        return ""
    code, reason = int(ended.get("exitCode") or 0), text(ended, "reason")
    how = f"exit {code}"
    if code - 128 in set(signal.Signals):
        how += f" ({signal.Signals(code - 128).name})"
    if reason == "OOMKilled":
        return f"out of memory, {how}" if code else f"{how}, but {CHILD_KILLED}"
    return how if reason in ("", "Error", "Completed") else f"{reason}, {how}"


def container_status(pod: Values | None, name: str) -> Values:
    """Return the status of a container; empty if it has none yet."""
    entries = listing(pod, "status", "containerStatuses")
    return next((status for status in entries if status["name"] == name), _NOTHING)


def condition(pod: Values | None, kind: str) -> Values:
    """Return a condition of a pod; empty if the pod does not have it."""
    return next((entry for entry in listing(pod, "status", "conditions") if entry["type"] == kind), _NOTHING)


def _container_statuses(pod: Values) -> list[Values]:
    return [*listing(pod, "status", "initContainerStatuses"), *listing(pod, "status", "containerStatuses")]


def _waiting_reasons(pod: Values) -> list[str]:
    return [text(status, "state", "waiting", "reason") for status in _container_statuses(pod)]
