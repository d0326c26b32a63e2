"""The supervisor of an experiment on Kubernetes: starts its pods in order, and stops them at its end.

It runs in a pod with any image that has Python 3. Its source text is passed to the pod, so it imports nothing
of symphony. A waiting pod has a scheduling gate, which the supervisor removes. A pod to stop gets an expired
deadline, so that kubelet ends it and its logs remain. The supervisor has no state and may be killed at any
time; only the time without activity (idle_after) then counts from its new start.
"""

from __future__ import annotations

import base64
import datetime
import email.utils
import hashlib
import json
import math
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

# The gate of a waiting pod, and annotations: why it waits, why it is blocked, why it was stopped.
GATE = "symphony/order"
WHY, BLOCKED, STOPPED = "symphony/why", "symphony/blocked", "symphony/stopped"
# When it was stopped, by the API server's clock; a container that ended before has ended by itself.
STOPPED_AT = "symphony/stopped-at"
# When it started, by the API server's clock: the time for its machine and image counts from then.
RELEASED = "symphony/released"
# Why it restarts with a dependency, and, in JSON, the starts of its dependencies when it started.
RESTARTS, STARTED_WITH = "symphony/restarts", "symphony/started-with"
# For equal workers: in JSON, the uids of those with which it started; when the first of them was created.
MET, BEGAN = "symphony/met", "symphony/began"
# In JSON, by container: the pattern of a readiness probe by log, and the start that has printed a match.
LOG_PROBES, PRINTED = "symphony/log-probes", "symphony/printed"
# The end that symphony:notify has reported; the first of the pods that ended the experiment has this note.
NOTIFIED = "symphony/notified"
# The process group of a pod, and those of its containers that are processes, as in manifests/labels.py.
GROUP, PROCESSES = "symphony/group", "symphony/processes"
# The name of a pod's manifest; a Job gives its pods other names.
POD = "symphony/pod"
# The label of the supervisor's pod.
SUPERVISOR = "symphony/supervisor"
# The variable with the result of `orders()` in manifests/supervisor_pod.py: JSON, compressed, in base64.
ORDERS = "SYMPHONY_ORDERS"
COMPLETED = "the experiment has completed"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Seconds between two listings, after an error, and from the end of all pods to the supervisor's own end.
_PERIOD, _AGAIN, _IDLE = 30.0, 2.0, 300.0
# Seconds that an answer may take, and from the warning in the log to the time limit.
_ANSWER, _WARNING = 30.0, 600.0
_LOG_BYTES = 16 << 20
# The lines of output that symphony:notify gets, and the seconds that it may take.
_LAST_LINES, _NOTIFY = 20, 60.0
# Cores below which a container counts as idle, and the seconds between two looks.
_IDLE_CORES, _IDLE_LOOK = 0.01, 60.0
_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces"
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3}

Pod = dict[str, Any]
Wait = Mapping[str, Any]


def main() -> None:
    """Supervise the experiment until all its pods have ended."""
    orders, api = orders_in(os.environ[ORDERS]), _Api()
    may_suspend = bool(orders["equal"]) or any(wait["restart_with"] for wait in orders["waits"])
    over_since: float | None = None
    activity = Activity(orders["idle_after"])
    warned: set[str] = set()
    while True:
        try:
            if may_suspend:
                api.find_suspended(orders["experiment"])
                may_suspend = False
            over = True
            for pods, given_up in api.versions(orders["experiment"], partial(_next, orders, activity)):
                activity.look(pods, api)
                for name, patch in decide(orders, pods, given_up, api.now(), activity.last):
                    pods[name] = api.patch(pods[name], patch)
                for pod in pods.values():
                    if note(pod, RESTARTS) and not _is_over(pod):
                        api.restart(pod)
                api.resume()
                _probe(orders, pods, api)
                over = all(map(_is_over, pods.values()))
                if orders["notify"]:
                    _notify(orders, pods, given_up, api)
                _warn(orders, pods, api.now(), warned, activity.last)
            over_since = (over_since or time.monotonic()) if over else None
            if over_since is not None and time.monotonic() - over_since > _IDLE:
                return
        except (OSError, ValueError, KeyError) as error:
            sys.stderr.write(
                f"cannot supervise the experiment now, trying again in {_AGAIN:.0f} s: {error}\n"
            )
            time.sleep(_AGAIN)


def orders_in(text: str) -> dict[str, Any]:
    """Return the orders in the text of the variable."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


class Activity:
    """The time at which a process last printed something, used the CPU, started or ended."""

    def __init__(self, limit: float | None) -> None:
        self._limit, self.last = limit, math.inf
        self._looked = 0.0
        self._running: set[str] = set()
        self._trouble = ""

    def look(self, pods: Mapping[str, Pod], api: _Api) -> None:
        """Look for activity, if a look is due; without measurements all processes count as active."""
        if self._limit is None:
            return
        now, containers = api.now(), list(_running(pods))
        running: set[str] = {status["containerID"] for _, status in containers}
        if not running or running != self._running:
            # A pod that waits for a node is not idle.
            self._running, self.last, self._looked = running, now, now
        elif now >= self.due():
            try:
                if api.are_active(containers, now - self._looked):
                    self.last = now
            except (OSError, ValueError, KeyError) as error:
                self.last, trouble = now, str(error)
                if trouble != self._trouble:
                    self._trouble = trouble
                    sys.stderr.write(f"idle_after: cannot read the CPU use or the output: {error}\n")
            self._looked = now

    def due(self) -> float:
        """Return when the next look is due."""
        return math.inf if self._limit is None else self._looked + min(_IDLE_LOOK, self._limit / 10)


def _running(pods: Mapping[str, Pod]) -> Iterator[tuple[Pod, dict[str, Any]]]:
    """Yield the containers that run, as their pods and statuses."""
    for pod in pods.values():
        for status in pod.get("status", {}).get("containerStatuses") or ():
            if "running" in status.get("state", {}):
                yield pod, status


def decide(
    orders: Mapping[str, Any],
    pods: Mapping[str, Pod],
    given_up: Collection[str],
    now: float,
    active: float = math.inf,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a patch for each pod to start, to stop, or to annotate.

    Args:
        orders: The waits, and the conditions of the experiment's end.
        pods: The pods of the experiment, by the names of their manifests.
        given_up: The failed Jobs, which create no other pod.
        now: The time of the API server's clock.
        active: The time of the last activity of a process, by the same clock.
    """
    end = end_of_experiment(orders, pods, given_up, now, active)
    for name, pod in pods.items():
        if end is not None:
            is_over = _is_over(pod) or _has_ended(pod, given_up)
            delay = 0 if is_gated(pod) else orders["delays"].get(name, 0)
            if not is_over and now >= end[1] + delay:
                yield name, _stop(pod, end[0], now)
            continue
        if is_gated(pod) and (note(pod, STOPPED) or pod.get(STOPPED)):
            # A stopped pod keeps its gate until the next `up` replaces it.
            if not note(pod, STOPPED):
                yield name, _stop(pod, pod[STOPPED], now)
            continue
        waits = [orders["waits"][index] for index in orders["pods"].get(name, ())]
        workers = [worker for names in orders["equal"] if name in names for worker in names]
        if is_gated(pod):
            patch = _gate_patch(waits, workers, pods, given_up, now, pod)
        else:
            patch = _restart_patch(waits, workers, pods, pod)
        if patch is not None:
            yield name, patch


def _gate_patch(
    waits: list[Wait],
    workers: list[str],
    pods: Mapping[str, Pod],
    given_up: Collection[str],
    now: float,
    pod: Pod,
) -> dict[str, Any] | None:
    """Return the patch that starts a gated pod or annotates why it waits; None if nothing changes."""
    words: list[str] = []
    failed: list[str] = []
    waited = now - created_at(pod)
    for wait in waits:
        is_met, has_failed, why = check_wait(wait, pods, given_up)
        counted = min(waited, _ran(wait, pods, now))
        if not is_met and not has_failed and wait["timeout"] is not None and counted >= wait["timeout"]:
            more = f": {why}" if why else ""
            has_failed = True
            why = f"{wait['path']} is not {wait['condition']} after {wait['timeout']:.0f} s{more}"
        if has_failed:
            failed.append(why)
        elif not is_met:
            words.append(f"{wait['path']} ({wait['condition']}){f': {why}' if why else ''}")
    if late := [name for name in workers if not _meets(pod, pods.get(name), given_up)]:
        words.append(f"the other workers: {', '.join(late)}")
    before = [_since(pods[name]) for name in workers if name in pods and _goes_on(pods[name], given_up)]
    began = {BEGAN: f"{min(before):.0f}"} if before else {}
    if not failed and not words:
        notes = {**began, RELEASED: f"{now:.0f}", **_starts(waits, workers, pods)}
        gates = [{"$patch": "delete", "name": GATE}]
        return {"spec": {"schedulingGates": gates}, "metadata": {"annotations": notes}}
    why, blocked = "" if failed else f"for {', '.join(words)}", "; ".join(dict.fromkeys(failed))
    notes = {WHY: why, BLOCKED: blocked, **began}
    if all(note(pod, name) == text for name, text in notes.items()):
        return None
    return {"metadata": {"annotations": {name: text or None for name, text in notes.items()}}}


def _starts(waits: list[Wait], workers: list[str], pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return the notes that record the starts of the dependencies and of the equal workers."""
    starts = {wait["path"]: _start(wait, pods) for wait in waits if wait["restart_with"]}
    notes = {STARTED_WITH: json.dumps(starts)} if starts else {}
    if workers:
        notes[MET] = json.dumps([pods[name]["metadata"]["uid"] for name in workers])
    return notes


def _meets(pod: Pod, worker: Pod | None, given_up: Collection[str]) -> bool:
    """Return whether an equal worker starts with this one, and not earlier, or has ended for good."""
    if worker is None or worker["metadata"].get("deletionTimestamp"):
        return False
    is_same = is_gated(worker) or pod["metadata"]["uid"] in json.loads(note(worker, MET) or "[]")
    return is_same or not _goes_on(worker, given_up)


def _goes_on(pod: Pod, given_up: Collection[str]) -> bool:
    """Return whether a pod is to run, runs, or is made again by its Job."""
    phase = pod.get("status", {}).get("phase")
    if phase == "Failed":
        is_gone = bool(pod["metadata"].get("deletionTimestamp")) or _has_ended(pod, given_up)
        return not is_gone and not note(pod, STOPPED)
    return phase != "Succeeded" and not note(pod, STOPPED)


def _start(wait: Wait, pods: Mapping[str, Pod]) -> str:
    """Return an identity of a process's start; empty before the first start."""
    return _container(pods.get(wait["pod"], {}), "status", "containerStatuses", wait["container"]).get(
        "containerID", ""
    )


def _restart_patch(
    waits: list[Wait], workers: list[str], pods: Mapping[str, Pod], pod: Pod
) -> dict[str, Any] | None:
    """Return the patch that restarts a pod, if one that it restarts with has restarted since."""
    if _is_over(pod) or note(pod, RESTARTS):
        return None
    before: dict[str, str] = json.loads(note(pod, STARTED_WITH) or "{}")
    again = [
        f"for {wait['path']} ({wait['condition']}), which restarted"
        for wait in waits
        if (start := _start(wait, pods)) and before.get(wait["path"], start) not in ("", start)
    ]
    met: list[str] = json.loads(note(pod, MET) or "[]")
    # Its Job has made a worker again, or a user has: the others would wait for it where they are.
    new = [name for name in workers if name in pods and pods[name]["metadata"]["uid"] not in met]
    if met and new:
        again.append(f"for the other workers: {', '.join(new)} started again")
    return {"metadata": {"annotations": {RESTARTS: again[0]}}} if again else None


def _ran(wait: Wait, pods: Mapping[str, Pod], now: float) -> float:
    """Return for how long a dependency has run; before its start, since it may be scheduled.

    0 while the dependency itself waits or is replaced, so that the deadline does not count then.
    """
    pod = pods.get(wait["pod"])
    if pod is None or pod["metadata"].get("deletionTimestamp") or is_gated(pod):
        return 0
    state = _container(pod, "status", "containerStatuses", wait["container"]).get("state", {})
    started = state.get("running", {}).get("startedAt")
    return now - (_seconds(started) if started else max(created_at(pod), float(note(pod, RELEASED) or 0)))


def check_wait(wait: Wait, pods: Mapping[str, Pod], given_up: Collection[str]) -> tuple[bool, bool, str]:
    """Return (whether a wait is met, whether it has failed, why it is not met)."""
    pod, condition, path = pods.get(wait["pod"]), wait["condition"], wait["path"]
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return False, False, "not started yet"
    if is_gated(pod):
        is_blocked = bool(note(pod, BLOCKED))
        return False, is_blocked, f"{path} is blocked" if is_blocked else ""
    status = _container(pod, "status", "containerStatuses", wait["container"])
    code = exit_code(pod, wait["container"], given_up)
    if code is not None:
        is_good = code == 0 and not (condition == "ready" and wait["serves"])
        is_met = is_good or condition in ("started", "ended")
        how = note(pod, STOPPED) or (f"exit {code}" if code >= 0 else pod["status"].get("reason", "failed"))
        return is_met, not is_met, "" if is_met else f"{path} {'failed' if code else 'completed'}: {how}"
    state = status.get("state", {})
    if "running" in state:
        is_met = condition == "started" or (condition == "ready" and is_ready(pod, status))
        return is_met, False, "not ready yet" if condition == "ready" and not is_met else ""
    return False, False, state.get("waiting", {}).get("reason", "")


def end_of_experiment(
    orders: Mapping[str, Any],
    pods: Mapping[str, Pod],
    given_up: Collection[str],
    now: float,
    active: float = math.inf,
) -> tuple[str, float] | None:
    """Return (why the experiment is over, since when); None before. After a limit, since when is 0."""
    for limit, since, why in _limits(orders, pods, active):
        if now - since >= limit:
            return why, 0
    codes = {primary["path"]: _code_of(primary, pods, given_up) for primary in orders["primary"]}
    failed = [primary for primary in orders["primary"] if codes[primary["path"]]]
    if not codes or (not failed and None in codes.values()):
        return None
    counted = failed or orders["primary"]
    times = [_finished_at(pods[primary["pod"]], primary["container"], now) for primary in counted]
    why = _how(failed[0], orders, pods, codes[failed[0]["path"]]) if failed else COMPLETED
    return why, (min if failed else max)(times)


def _how(
    place: Mapping[str, str], orders: Mapping[str, Any], pods: Mapping[str, Pod], code: int | None
) -> str:
    """Return how a process failed, in words."""
    if _is_blocked(pods[place["pod"]]):
        return f"{place['path']} is blocked: {_cause(place['pod'], orders, pods)}"
    return f"{place['path']} failed" + (f": exit {code}" if code and code > 0 else "")


def _cause(name: str, orders: Mapping[str, Any], pods: Mapping[str, Pod]) -> str:
    """Return why the first pod of a chain of blocked ones is blocked."""
    before = (orders["waits"][index]["pod"] for index in orders["pods"].get(name, ()))
    blocked = next((other for other in before if other in pods and _is_blocked(pods[other])), None)
    return note(pods[name], BLOCKED) if blocked is None else _cause(blocked, orders, pods)


def _is_blocked(pod: Pod) -> bool:
    return is_gated(pod) and bool(note(pod, BLOCKED))


def _limits(
    orders: Mapping[str, Any], pods: Mapping[str, Pod], active: float
) -> Iterator[tuple[float, float, str]]:
    """Yield the seconds of each limit, the moment from which they count, and the reason of the end."""
    remaining = [pod for pod in pods.values() if not _is_over(pod)]
    if (limit := orders["stop_after"]) is not None and remaining:
        began = min(map(_since, remaining))
        yield limit, began, f"the time limit of {limit:.0f} s (stop_after) is over"
    if (limit := orders["idle_after"]) is not None:
        yield limit, active, f"no output and no CPU use for {limit:.0f} s (idle_after)"


def _code_of(place: Mapping[str, str], pods: Mapping[str, Pod], given_up: Collection[str]) -> int | None:
    pod = pods.get(place["pod"])
    # The end of a pod that is being replaced does not count.
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return None
    # A blocked pod never runs, which counts as a failure.
    return -1 if _is_blocked(pod) else exit_code(pod, place["container"], given_up)


def exit_code(pod: Pod, container: str, given_up: Collection[str]) -> int | None:
    """Return a container's final exit code, -1 if it was lost with its pod; None while it may run."""
    phase = pod.get("status", {}).get("phase")
    terminated = _container(pod, "status", "containerStatuses", container).get("state", {}).get("terminated")
    code = terminated["exitCode"] if terminated else -1 if phase == "Failed" else None
    if code is None:
        return None
    jobs = [owner["name"] for owner in pod["metadata"].get("ownerReferences", ()) if owner.get("controller")]
    if code and jobs:
        return code if jobs[0] in given_up else None
    policy = pod["spec"].get("restartPolicy", "Always")
    is_final = phase in ("Failed", "Succeeded") or policy == "Never" or (policy == "OnFailure" and code == 0)
    return code if is_final else None


def is_ready(pod: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether a container is ready, and has printed a match of its probe by log, if any."""
    if not status.get("ready") or not pattern_of(pod, status["name"]):
        return bool(status.get("ready"))
    return json.loads(note(pod, PRINTED) or "{}").get(status["name"]) == status.get("containerID")


def pattern_of(pod: Mapping[str, Any], container: str) -> str:
    """Return the pattern of a container's readiness probe by log; empty if it has none."""
    return json.loads(note(pod, LOG_PROBES) or "{}").get(container, "")


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod waits for others."""
    return any(gate["name"] == GATE for gate in pod.get("spec", {}).get("schedulingGates") or ())


def note(pod: Mapping[str, Any], name: str) -> str:
    """Return an annotation of a pod; empty if it does not have it."""
    notes: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return notes.get(name) or ""


def created_at(pod: Pod) -> float:
    """Return when a pod was created, in seconds since the epoch."""
    return _seconds(pod["metadata"]["creationTimestamp"])


def _stop(pod: Pod, why: str, now: float) -> dict[str, Any]:
    """Return the patch that stops a pod; a pod that never started keeps its gate, and why it is blocked."""
    texts = {STOPPED: why, STOPPED_AT: f"{math.floor(now)}", WHY: None}
    notes = {"metadata": {"annotations": texts}}
    return notes if is_gated(pod) else {**notes, "spec": {"activeDeadlineSeconds": 1}}


def _is_finished(pod: Pod) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _is_over(pod: Pod) -> bool:
    return _is_finished(pod) or bool(note(pod, STOPPED) or pod["metadata"].get("deletionTimestamp"))


def _has_ended(pod: Pod, given_up: Collection[str]) -> bool:
    """Return whether all containers of a pod have ended; its phase shows that only a moment later."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return bool(statuses) and all(exit_code(pod, status["name"], given_up) is not None for status in statuses)


def _since(pod: Pod) -> float:
    """Return when a pod was created; of equal workers that were created again, when the first ones were."""
    return float(note(pod, BEGAN) or created_at(pod))


def _next(orders: Mapping[str, Any], activity: Activity, pods: Mapping[str, Pod], now: float) -> float:
    """Return the seconds until something is due, and at most the time between two listings."""
    moments = [now + _PERIOD, activity.due()]
    for name, pod in pods.items():
        if is_gated(pod):
            waits = (orders["waits"][index] for index in orders["pods"].get(name, ()))
            moments += [
                now + wait["timeout"] - min(now - created_at(pod), _ran(wait, pods, now))
                for wait in waits
                if wait["timeout"] is not None
            ]
    for limit, since, _ in _limits(orders, pods, activity.last):
        moments += [since + limit - _warning_seconds(limit), since + limit]
    if (end := end_of_experiment(orders, pods, (), now)) is not None:
        moments += [end[1] + delay for delay in (0, *orders["delays"].values())]
    moments += [now + _pause(probe, status, now) for probe, _, status in _unmatched_log_probes(orders, pods)]
    return min(moment - now for moment in moments if moment > now)


def _unmatched_log_probes(
    orders: Mapping[str, Any], pods: Mapping[str, Pod]
) -> Iterator[tuple[Wait, Pod, dict[str, Any]]]:
    """Yield the probes by log that have no match yet, with their pods and container statuses."""
    for probe in orders["logs"]:
        pod = pods.get(probe["pod"], {})
        status = _container(pod, "status", "containerStatuses", probe["container"])
        if "running" in status.get("state", {}) and status.get("ready") and not is_ready(pod, status):
            yield probe, pod, status


def _pause(probe: Wait, status: Mapping[str, Any], now: float) -> float:
    """Return the seconds between two looks into a log, which grow with the time since the start."""
    return max(probe["period"], (now - _seconds(status["state"]["running"]["startedAt"])) / 20)


def _probe(orders: Mapping[str, Any], pods: dict[str, Pod], api: _Api) -> None:
    """Look for matches of the probes by log that are due, and annotate containers that have printed one."""
    for probe, pod, status in _unmatched_log_probes(orders, pods):
        if api.log_has(pod, status, probe["pattern"], _pause(probe, status, api.now())):
            printed = json.loads(note(pod, PRINTED) or "{}") | {status["name"]: status["containerID"]}
            pods[probe["pod"]] = api.patch(pod, {"metadata": {"annotations": {PRINTED: json.dumps(printed)}}})


def _warn(
    orders: Mapping[str, Any],
    pods: Mapping[str, Pod],
    now: float,
    warned: set[str],
    active: float = math.inf,
) -> None:
    """Write a warning to the log, once, before a time limit ends the experiment."""
    for limit, since, why in _limits(orders, pods, active):
        left = since + limit - now
        if not 0 < left <= _warning_seconds(limit):
            warned.discard(why)
        elif why not in warned:
            warned.add(why)
            sys.stderr.write(f"the experiment will stop in {left:.0f} s; the reason will be: {why}\n")


def _notify(orders: Mapping[str, Any], pods: dict[str, Pod], given_up: Collection[str], api: _Api) -> None:
    """Run the command of symphony:notify, once for each end of the experiment."""
    end = end_facts(orders, pods, given_up)
    ending = {place["pod"] for place in orders["primary"]} or set(pods)
    # The note is on one of these pods, since an `up` that keeps them may replace any other pod.
    first = min(ending & pods.keys(), default="")
    uids = "".join(sorted(pod["metadata"]["uid"] for name, pod in pods.items() if name in ending))
    identity = hashlib.sha256(uids.encode()).hexdigest()[:16]
    if end is None or note(pods[first], NOTIFIED) == identity:
        return
    variables, causes = end
    variables["SECONDS"] = f"{api.now() - min(map(_since, pods.values())):.0f}"
    logs = (api.last_lines(pods[place["pod"]], place["container"]) for place in causes)
    last = next(filter(None, logs), "")
    # Noted before the command runs, so that it runs once, whatever happens to the supervisor.
    pods[first] = api.patch(pods[first], {"metadata": {"annotations": {NOTIFIED: identity}}})
    environment = {name: text for name, text in os.environ.items() if name != ORDERS}
    environment |= {"NAME": orders["name"], **variables, "LAST_LINES": last}
    try:
        subprocess.run(
            orders["notify"], env=environment, stdin=subprocess.DEVNULL, timeout=_NOTIFY, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"symphony:notify: {error}\n")


def end_facts(
    orders: Mapping[str, Any], pods: Mapping[str, Pod], given_up: Collection[str]
) -> tuple[dict[str, str], list[dict[str, str]]] | None:
    """Return STATE, EXIT and WHY, and the processes that ended the experiment; None before its end."""
    is_changing = any(pod["metadata"].get("deletionTimestamp") for pod in pods.values())
    if is_changing or len(pods) < orders["total"]:
        return None
    every = [place for name, pod in pods.items() for place in places_of(name, pod)]
    places = [place for place in orders["primary"] or every if place["pod"] in pods]

    def has_failed(place: Mapping[str, str]) -> bool:
        pod = pods[place["pod"]]
        return bool(_code_of(place, pods, given_up)) and (_is_blocked(pod) or not note(pod, STOPPED))

    codes = {place["path"]: _code_of(place, pods, given_up) for place in places}
    stops = {place["path"]: note(pods[place["pod"]], STOPPED) for place in places}
    failed = [place for place in places if has_failed(place)]
    if failed and (orders["primary"] or (None not in codes.values() and not any(stops.values()))):
        code = codes[failed[0]["path"]] or 0
        facts = {"STATE": "failed", "EXIT": str(max(code, 1)), "WHY": _how(failed[0], orders, pods, code)}
        # A blocked process has no output: that of the one that failed first shows why.
        failed += [place for place in every if place not in failed and has_failed(place)]
    elif any(stops.values()):
        facts = {"STATE": "stopped", "EXIT": "124", "WHY": next(filter(None, stops.values()))}
    elif None in codes.values():
        return None
    else:
        names = ", ".join(place["path"] for place in places[:3])
        facts = {"STATE": "completed", "EXIT": "0", "WHY": f"{names} completed"}
    return facts, failed if facts["STATE"] == "failed" else places


def places_of(name: str, pod: Pod) -> Iterator[dict[str, str]]:
    """Yield the processes of a pod, as in the orders."""
    group, processes = note(pod, GROUP), note(pod, PROCESSES).split(",")
    for container in pod["spec"]["containers"]:
        if processes == [""] or container["name"] in processes:
            path = f"{group}/{container['name']}" if group else container["name"]
            yield {"path": path, "pod": name, "container": container["name"]}


def _warning_seconds(limit: float) -> float:
    """Return how long before a time limit the log warns of it."""
    return _WARNING if limit > _WARNING else limit / 2


def _finished_at(pod: Pod, container: str, now: float) -> float:
    """Return when a container ended, else when its pod was created; if that is gated, its stop, else now."""
    if is_gated(pod):
        return float(note(pod, STOPPED_AT) or now)
    state = _container(pod, "status", "containerStatuses", container).get("state", {})
    return _seconds(state.get("terminated", {}).get("finishedAt") or pod["metadata"]["creationTimestamp"])


def _container(pod: Pod, part: str, kind: str, name: str) -> dict[str, Any]:
    containers: list[dict[str, Any]] = pod.get(part, {}).get(kind) or []
    none: dict[str, Any] = {}
    return next((container for container in containers if container["name"] == name), none)


def _seconds(moment: str) -> float:
    """Return a time of the API server, such as `2026-01-31T12:00:00Z`, in seconds since the epoch."""
    # Python 3.10 and older do not parse "Z".
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


class _Api:
    """A client for the API server with the pod's service account."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self._namespace = namespace = (_ACCOUNT / "namespace").read_text()
        self._server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._tls = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
        self._ahead = 0.0
        # The pods of the last listing as they are now, by their names in the cluster.
        self._every: dict[str, Pod] = {}
        # The Jobs whose pods are to end and to be created again: their names, by uid.
        self._suspended: dict[str, str] = {}
        # When a log was read last, by the start of its container.
        self._read: dict[str, float] = {}

    def now(self) -> float:
        """Return the time of the server's clock."""
        return time.time() + self._ahead

    def versions(
        self, experiment: str, seconds: Callable[[dict[str, Pod], float], float]
    ) -> Iterator[tuple[dict[str, Pod], Collection[str]]]:
        """Yield (pods of the experiment, failed Jobs) at once and after every change.

        Args:
            experiment: The experiment label of its pods.
            seconds: Returns how long to watch before the next listing.
        """
        query = {"labelSelector": f"symphony/experiment={experiment},{POD},!{SUPERVISOR}"}
        with self._call("GET", self._pods, query) as response:
            listed = json.load(response)
        every = self._every = {pod["metadata"]["name"]: pod for pod in listed["items"]}
        pods = _by_name(every)
        yield pods, self._given_up(pods)
        most = max(1, math.ceil(seconds(pods, self.now())))
        until = self.now() + most
        version = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        with self._call("GET", self._pods, {**query, **version, "timeoutSeconds": str(most)}, most) as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                pod = event["object"]
                name = pod["metadata"]["name"]
                if event["type"] == "DELETED":
                    every.pop(name, None)
                elif name not in every or _version(pod) > _version(every[name]):
                    # Else the event is older than a patch of this pod.
                    every[name] = pod
                pods = _by_name(every)
                yield pods, self._given_up(pods)
                if self.now() + seconds(pods, self.now()) < until - 1:
                    # A deadline is now due before this watch ends.
                    return

    def patch(self, pod: Pod, patch: Mapping[str, Any]) -> Pod:
        """Patch a pod unless it was replaced, and return it as it is afterwards."""
        metadata = {**patch.get("metadata", {}), "uid": pod["metadata"]["uid"]}
        path = f"{self._pods}/{pod['metadata']['name']}"
        try:
            with self._call("PATCH", path, body={**patch, "metadata": metadata}) as response:
                patched = json.load(response)
        except urllib.error.HTTPError as error:
            # The pod no longer exists, or another pod has its name.
            if error.code not in (404, 409):
                answer = error.read(2000).decode()
                raise OSError(f"pod {pod['metadata']['name']} was not changed: {answer}") from error
            return pod
        self._every[pod["metadata"]["name"]] = patched
        return patched

    def restart(self, pod: Pod) -> None:
        """End a pod with its grace period; `resume` then has its Job create another.

        A suspended Job does not count how its pod ends: one that exits with 0 would complete it otherwise.
        """
        (owner,) = (own for own in pod["metadata"]["ownerReferences"] if own.get("controller"))
        if owner["uid"] not in self._suspended:
            self._suspend(owner["name"], owner["uid"], True)
            self._suspended[owner["uid"]] = owner["name"]

    def find_suspended(self, experiment: str) -> None:
        """Find the Jobs that an earlier supervisor has suspended."""
        with self._call(
            "GET", self._jobs, {"labelSelector": f"symphony/experiment={experiment}"}
        ) as response:
            jobs = json.load(response)["items"]
        suspended = (job["metadata"] for job in jobs if job["spec"].get("suspend"))
        self._suspended = {job["uid"]: job["name"] for job in suspended}

    def resume(self) -> None:
        """Resume the suspended Jobs whose pods have ended, so that these create new pods."""
        active = {uid for pod in self._every.values() if not _is_finished(pod) for uid in _jobs_of(pod)}
        for uid in self._suspended.keys() - active:
            self._suspend(self._suspended[uid], uid, False)
            del self._suspended[uid]

    def _suspend(self, name: str, uid: str, is_suspended: bool) -> None:
        body = {"metadata": {"uid": uid}, "spec": {"suspend": is_suspended}}
        try:
            self._call("PATCH", f"{self._jobs}/{name}", body=body).close()
        except urllib.error.HTTPError as error:
            # The Job no longer exists, or another Job has its name.
            if error.code not in (404, 409):
                raise OSError(f"Job {name} was not changed: {error.read(2000).decode()}") from error

    def log_has(self, pod: Pod, status: Mapping[str, Any], pattern: str, pause: float) -> bool:
        """Return whether a container has printed a match since the last look; False if no look is due."""
        start, now = status["containerID"], self.now()
        last = self._read.get(start)
        if last is not None and now - last < pause - 0.5:
            return False
        query = {"container": status["name"], "limitBytes": str(_LOG_BYTES)}
        if last is not None:
            query["sinceSeconds"] = str(math.ceil(now - last) + 2)
        with self._call("GET", f"{self._pods}/{pod['metadata']['name']}/log", query) as response:
            has = any(re.search(pattern, line.decode(errors="replace").rstrip("\n")) for line in response)
        self._read[start] = now
        return has

    def last_lines(self, pod: Pod, container: str) -> str:
        """Return the end of the output of a container; empty if it has none."""
        query = {"container": container, "tailLines": str(_LAST_LINES)}
        try:
            with self._call("GET", f"{self._pods}/{pod['metadata']['name']}/log", query) as response:
                return (
                    response.read(_LOG_BYTES).decode(errors="replace").replace("\0", "").rstrip("\n")[-8192:]
                )
        except OSError:
            return ""

    def are_active(self, containers: list[tuple[Pod, dict[str, Any]]], seconds: float) -> bool:
        """Return whether one of the containers uses the CPU, or has printed something in these seconds."""
        with self._call("GET", f"{_METRICS}/{self._namespace}/pods") as response:
            measured = json.load(response)["items"]
        cores = {
            (pod["metadata"]["name"], container["name"]): _cores(container["usage"]["cpu"])
            for pod in measured
            for container in pod["containers"]
        }
        places = [(pod["metadata"]["name"], status["name"]) for pod, status in containers]
        # A container that is not measured yet has just started.
        return any(cores.get(place, 1) >= _IDLE_CORES for place in places) or any(
            self._has_printed(*place, seconds) for place in places
        )

    def _has_printed(self, pod: str, container: str, seconds: float) -> bool:
        query = {"container": container, "sinceSeconds": str(math.ceil(seconds) + 1), "limitBytes": "1"}
        with self._call("GET", f"{self._pods}/{pod}/log", query) as response:
            return bool(response.read())

    def _given_up(self, pods: Mapping[str, Pod]) -> Collection[str]:
        failed = (pod for pod in pods.values() if pod.get("status", {}).get("phase") == "Failed")
        if not any(pod["metadata"].get("ownerReferences") for pod in failed):
            return ()
        with self._call("GET", self._jobs) as response:
            jobs = json.load(response)["items"]
        conditions = {job["metadata"]["name"]: job.get("status", {}).get("conditions") or () for job in jobs}
        return {
            name
            for name, job_conditions in conditions.items()
            if any(
                (condition["type"], condition["status"]) == ("Failed", "True") for condition in job_conditions
            )
        }

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        more: float = 0,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        # Read every time, since kubelet renews the token before it expires.
        headers = {"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}"}
        if body is not None:
            is_patch = method == "PATCH"
            headers["Content-Type"] = f"application/{'strategic-merge-patch+' if is_patch else ''}json"
        url = f"{self._server}{path}?{urllib.parse.urlencode(query or {})}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        response = urllib.request.urlopen(request, timeout=_ANSWER + more, context=self._tls)
        if date := response.headers["Date"]:
            self._ahead = email.utils.parsedate_to_datetime(date).timestamp() - time.time()
        return response


def _cores(quantity: str) -> float:
    """Return the cores of a quantity such as `12345678n`."""
    return float(quantity.rstrip("num")) * _UNITS.get(quantity[-1], 1)


def _version(pod: Pod) -> int:
    return int(pod["metadata"]["resourceVersion"])


def _by_name(pods_by_own_name: Mapping[str, Pod]) -> dict[str, Pod]:
    """Return the pods by the names of their manifests; the last try that is not being deleted wins.

    If a Job has created a pod in place of a stopped one, the dict of the new pod gets the key STOPPED.
    """

    def age(pod: Pod) -> tuple[bool, str]:
        return not pod["metadata"].get("deletionTimestamp"), pod["metadata"]["creationTimestamp"]

    pods = {pod["metadata"]["labels"][POD]: pod for pod in sorted(pods_by_own_name.values(), key=age)}
    for pod in pods_by_own_name.values():
        last = pods[pod["metadata"]["labels"][POD]]
        if (why := note(pod, STOPPED)) and last is not pod and _jobs_of(last) == _jobs_of(pod) != []:
            last[STOPPED] = why
    return pods


def _jobs_of(pod: Pod) -> list[str]:
    return [owner["uid"] for owner in pod["metadata"].get("ownerReferences", ()) if owner.get("controller")]


if __name__ == "__main__":
    main()
