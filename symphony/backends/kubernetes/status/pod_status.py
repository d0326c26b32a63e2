"""Reads the status of a process from its pod: the one place that knows Kubernetes' reasons. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.api.fields import Values, listing, mapping, text
from symphony.backends.kubernetes.manifests import probes
from symphony.backends.observe import ProcessStatus, State
from symphony.plan.names import printable

LONGEST = 300
_LINES = 3
# The end of containerd's chain of causes where the image lacks a program.
_MISSING = re.compile(r'exec: "([^"]+)": (?:executable file not found|stat [^:]+: no such file)')
# The scheduler's reasons, without its remarks on evicting other pods.
_SCHEDULER = re.compile(r"0/\d+ nodes are available: (.+?)(?:\. |\.$|$)")
# The place of a container, which the reader knows.
_WHERE = re.compile(r' \(pod: "[^"]*", container: [^)]*\)')
_NOTHING: Values = {}
# Reasons why the cluster ended a pod whose programs still ran.
_TAKEN = ("Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "DeletionByPodGC")
CHILD_KILLED = "a process that it started was killed: out of memory"
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Waiting does not cure these by itself.
_HOPELESS = (*NO_IMAGE, *NOT_STARTED, "CrashLoopBackOff")
# Events that alone say what keeps a pod on a machine from its containers, and events that come after them.
_UNMOUNTED = ("FailedMount", "FailedAttachVolume")
UNWELL = ("FailedCreatePodSandBox", "NetworkNotReady")
_PAST_IT = ("Pulling", "Pulled", "Created", "Started")

# The state, the reason, and since when.
_Condition = tuple[State, str, float | None]


def status(
    path: str, container: str, pod: Values | None, events: Mapping[str, str] | None = None
) -> ProcessStatus:
    """Return the status of the process that a container runs; None is a pod that is gone.

    events: the name of a pod -> its last event that says what keeps it from running.
    """
    if pod is None:
        return ProcessStatus(path, "lost", ready=False, why="its pod is gone")
    own = container_status(pod, container)
    ended, last = mapping(own, "state", "terminated"), mapping(own, "lastState", "terminated")
    restarts = int(own.get("restartCount") or 0)
    condition = _condition(pod, container, own, (events or {}).get(text(pod, "metadata", "name"), ""))
    state, why, since = (None if _ended_before(pod, ended) else _held(pod)) or condition
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
        exit_code=_exit_code(ended) if state in ("completed", "failed") else None,
    )


def held(status: ProcessStatus, facts: Mapping[str, Any], pods: Mapping[str, Values]) -> ProcessStatus:
    """Return the status of a process that is held back with what it waits for, and whether that is seen to.

    Args:
        status: That of the process.
        facts: Its settings in the state.
        pods: Those of the experiment, by their names in the plan.
    """
    waits = tuple(dict.fromkeys(f"{each['path']} ({each['condition']})" for each in facts["waits_for"]))
    why, keeper = status.why or f"for {', '.join(waits)}", pods.get(facts["supervisor"])
    if status.state == "waiting" and keeper is not None and is_hopeless(keeper):
        trouble = statuses(keeper)[0].why
        why = f"{why}; the pod {facts['supervisor']}, which starts it, does not run: {trouble}"
    return replace(status, why=why, waits_for=waits)


def statuses(pod: Values) -> list[ProcessStatus]:
    """Return the status of every container of a pod."""
    names = [text(container, "name") for container in listing(pod, "spec", "containers")]
    return [status(name, name, pod) for name in names]


def is_good(pod: Values) -> bool:
    """Return whether the next `up` leaves this pod alone: all its processes wait, run or are completed."""
    return all(each.state in ("running", "waiting", "completed", "unknown") for each in statuses(pod))


def is_hopeless(pod: Values) -> bool:
    """Return whether waiting rarely starts the containers that do not run."""
    if supervisor.is_gated(pod):
        return False
    if any(reason in _HOPELESS for reason in _waiting_reasons(pod)) or _unscheduled(pod):
        return True
    running = [own for own in _container_statuses(pod) if mapping(own, "state", "running")]
    return any(_silent_node(pod, own) or not supervisor.is_ready(pod, own) for own in running)


def lacks_image(pod: Values) -> bool:
    """Return whether an image of the pod cannot be pulled."""
    return any(reason in NO_IMAGE for reason in _waiting_reasons(pod))


def needs_events(pod: Values) -> bool:
    """Return whether only an event can say why its containers do not start."""
    creating = any(reason in ("ContainerCreating", "PodInitializing") for reason in _waiting_reasons(pod))
    return creating and bool(text(pod, "spec", "nodeName"))


def trouble(events: Iterable[Values]) -> Values:
    """Return the event of a pod that says why its containers do not start, an empty one for none.

    Events stay for an hour: a volume that was late counts until the pod has come further.
    """
    known = [each for each in events if text(each, "reason") in (*_UNMOUNTED, *UNWELL, *_PAST_IT)]
    last = max(known, key=lambda each: (event_time(each) or 0.0, _is_past_it(each)), default=_NOTHING)
    return _NOTHING if _is_past_it(last) else last


def _is_past_it(event: Values) -> bool:
    return text(event, "reason") in _PAST_IT


def event_time(event: Values) -> float | None:
    """Return when the cluster reported this last, in seconds since the epoch."""
    return epoch(text(event, "lastTimestamp") or text(event, "eventTime"))


def is_sidecar(pod: Values | None, name: str) -> bool:
    """Return whether an init container runs beside the containers and ends after them."""
    every = listing(pod, "spec", "initContainers")
    return any(each.get("name") == name and each.get("restartPolicy") == "Always" for each in every)


def ends(pod: Values, container: str, *, before: bool = False) -> list[Values]:
    """Return how the last starts of a container ended, the older one first; before: only the older one."""
    own = container_status(pod, container)
    states = ("lastState",) if before else ("lastState", "state")
    return [ended for state in states if (ended := mapping(own, state, "terminated"))]


def epoch(moment: object) -> float | None:
    """Return a time of the API server in seconds since the epoch, None for no time."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None


def _held(pod: Values) -> _Condition | None:
    """Return the condition of a pod that its supervisor holds back or has stopped; None for others."""
    why, made = partial(supervisor.note, pod), epoch(text(pod, "metadata", "creationTimestamp"))
    if text(pod, "metadata", "deletionTimestamp"):
        again = why(supervisor.RESTARTS)
        return ("waiting", again, made) if again else None
    if supervisor.is_gated(pod):
        if stopped := why(supervisor.STOPPED):
            return _stopped(stopped, made)
        blocked = why(supervisor.BLOCKED)
        return "blocked" if blocked else "waiting", blocked or why(supervisor.WHY), made
    if (stopped := why(supervisor.STOPPED)) and text(pod, "status", "phase") == "Failed":
        return _stopped(stopped, None)
    return None


def _ended_before(pod: Values, ended: Values) -> bool:
    """Return whether a process had ended when its pod was stopped: others of the pod ran on."""
    stopped, moment = supervisor.note(pod, supervisor.STOPPED_AT), epoch(ended.get("finishedAt"))
    return bool(stopped) and moment is not None and moment <= float(stopped)


def _stopped(why: str, since: float | None) -> _Condition:
    """Return the condition of a pod that its experiment stopped: with its primaries it has completed, too."""
    if why == supervisor.COMPLETED:
        return "completed", f"stopped: {why}", since
    return "stopped", why, since


def _condition(pod: Values, name: str, own: Values, event: str) -> _Condition:
    ended, running = mapping(own, "state", "terminated"), mapping(own, "state", "running")
    deleted = text(pod, "metadata", "deletionTimestamp")
    if taken := _taken(pod, running=bool(running)):
        return taken
    if ended:
        return _ended(pod, ended)
    if deleted:
        return "stopped", "it is being deleted", epoch(deleted)
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


def _ended(pod: Values, ended: Values) -> _Condition:
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
    # The kernel killed a process that the program had started, and the program went on.
    return "completed", CHILD_KILLED if ended.get("reason") == "OOMKilled" else "", moment


def _taken(pod: Values, *, running: bool) -> _Condition | None:
    """Return the condition of a pod that was lost with its machine, or evicted; None for others."""
    disrupted = condition(pod, "DisruptionTarget")
    gone = text(pod, "metadata", "deletionTimestamp") or text(pod, "status", "phase") == "Failed"
    if disrupted.get("status") == "True" and gone:
        why = text(disrupted, "message") or text(disrupted, "reason")
        return "lost", why, epoch(disrupted.get("lastTransitionTime"))
    if text(pod, "status", "reason") in _TAKEN and not running:
        return "lost", _reason(mapping(pod, "status")), None
    return None


def _silent_node(pod: Values, own: Values) -> str:
    """Return why a container may not run although its status says so: its node is silent."""
    ready = condition(pod, "Ready")
    every = [bool(each.get("ready")) for each in listing(pod, "status", "containerStatuses")]
    doubted = ready.get("status") == "False" and not ready.get("reason")
    if own.get("ready") and all(every) and doubted:
        return f"its node {text(pod, 'spec', 'nodeName')} does not answer"
    return ""


def _why_failed(pod: Values) -> str:
    """Return why a pod failed before this container of it could run."""
    for status in listing(pod, "status", "initContainerStatuses"):
        ended = mapping(status, "state", "terminated")
        if ended and ended.get("exitCode") != 0 and not is_sidecar(pod, str(status["name"])):
            return f"{status['name']}: {_how(ended)}"
    return _reason({"reason": "Failed", **mapping(pod, "status")})


def _why_waiting(pod: Values, name: str, own: Values, event: str) -> str:
    if unscheduled := _unscheduled(pod):
        return unscheduled
    waiting = mapping(own, "state", "waiting")
    if waiting.get("reason") in _HOPELESS:
        return _waits_for(pod, name, own)
    for init in listing(pod, "status", "initContainerStatuses"):
        if mapping(init, "state", "waiting").get("reason") in _HOPELESS:
            return f"{init['name']}: {_waits_for(pod, str(init['name']), init)}"
    if not waiting:
        return "not started yet" if text(pod, "spec", "nodeName") else "not scheduled yet"
    reason = text(waiting, "reason") or "waiting"
    return f"{reason}: {event}" if event else reason


def _waits_for(pod: Values, name: str, own: Values) -> str:
    """Return the reason of a container that waiting does not start."""
    waiting = mapping(own, "state", "waiting")
    if waiting["reason"] == "CrashLoopBackOff":
        return f"CrashLoopBackOff: {_how(mapping(own, 'lastState', 'terminated'))}"
    if waiting["reason"] not in NO_IMAGE:
        return _reason(waiting)
    # The last cause in a chain such as `failed to pull: failed to resolve: not found`; containerd ends with
    # the kind of an error of which it knows none.
    message = in_words(waiting)
    cause = message.rstrip('" .').removesuffix(": unknown").rpartition(": ")[2]
    return f"{waiting['reason']}: {image_of(pod, name)}{f': {cause}' if cause and cause != message else ''}"


def _spec_of(pod: Values, container: str) -> Values:
    return next((each for each in listing(pod, "spec", "containers") if each["name"] == container), _NOTHING)


def image_of(pod: Values | None, container: str) -> str:
    """Return the image of a container."""
    every = [*listing(pod, "spec", "containers"), *listing(pod, "spec", "initContainers")]
    return next((text(each, "image") for each in every if each["name"] == container), "?")


def _unscheduled(pod: Values) -> str:
    scheduled = condition(pod, "PodScheduled")
    # The scheduler has not looked at it yet since its last gate was taken away.
    if scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulingGated":
        return ""
    return f"{scheduled.get('reason')}: {in_short(text(scheduled, 'message'))}".rstrip(": ")


def in_short(message: str) -> str:
    """Return the scheduler's reasons, without how many nodes there are and whether others could be evicted.

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
    """Return how a start ended with its last line: `exit 1: no such file`."""
    return ": ".join([how_it_ended(ended), *_lines(ended)[-1:]])


def _lines(ended: Values) -> list[str]:
    return [line.strip() for line in in_words(ended).splitlines() if line.strip()]


def in_words(state: Values) -> str:
    """Return the message of a container that ended or could not start."""
    message = _WHERE.sub("", text(state, "message"))
    missing = _MISSING.search(message)
    return f'the image has no program "{missing[1]}"' if missing else message


def _exit_code(ended: Values) -> int | None:
    return int(ended["exitCode"]) if "exitCode" in ended else None


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
    """Return the status of a container, an empty one before it has any."""
    every = listing(pod, "status", "containerStatuses")
    return next((each for each in every if each["name"] == name), _NOTHING)


def condition(pod: Values | None, kind: str) -> Values:
    """Return a condition of a pod, an empty one where the pod does not have it."""
    return next((each for each in listing(pod, "status", "conditions") if each["type"] == kind), _NOTHING)


def _container_statuses(pod: Values) -> list[Values]:
    return [*listing(pod, "status", "initContainerStatuses"), *listing(pod, "status", "containerStatuses")]


def _waiting_reasons(pod: Values) -> list[str]:
    return [text(each, "state", "waiting", "reason") for each in _container_statuses(pod)]
