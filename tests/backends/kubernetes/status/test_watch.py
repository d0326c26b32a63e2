"""`up` watches pods start: when it is done, when it gives up (scripted API server and clock)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes import watch as watching
from symphony.backends.observe import ProcessStatus, Recorded
from symphony.errors import SymphonyError
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Api, Asked, chunked, serving, thing
from tests.backends.kubernetes.status.test_pod_status import EVICTED, GOING, RUNS, ended, gated, pod, waits

Body = dict[str, Any]
OWNER = "symphony/rl#1"
CREATING = waits("ContainerCreating")
UID = {"uid": "u"}


@dataclass
class Clock:
    """A clock that advances only while a caller waits."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(watching, "time", fake)
    return fake


@dataclass
class Pods:
    """The pods as a function of time; a watch is silent for five seconds, or fails with an HTTP status."""

    clock: Clock
    at: Callable[[float], list[Body]]
    watched: Sequence[int] = ()
    events: Sequence[Body] = ()
    jobs: Sequence[Body] = ()
    watches: int = field(default=0, init=False)

    def __call__(self, asked: Asked) -> Answer:
        place, query = urlsplit(asked.path), parse_qs(urlsplit(asked.path).query)
        kind = place.path.rpartition("/")[2]
        if "watch" in query:
            self.watches += 1
            if self.watches <= len(self.watched):
                return self.watched[self.watches - 1], {"message": "no"}
            self.clock.now += 5
            return 200, chunked()
        if kind == "events":
            return self._events(query)
        objects = {"pods": self.at(self.clock.now), "jobs": self.jobs}
        return (200, {"items": objects[kind]}) if kind in objects else MISSING

    def _events(self, query: dict[str, list[str]]) -> Answer:
        """Return one event for each page."""
        (selector,), start = query["fieldSelector"], int(query.get("continue", ["0"])[0])
        wanted = dict(each.split("=") for each in selector.split(","))
        result = [
            each
            for each in self.events
            if (each["involvedObject"]["kind"], each["type"])
            == (wanted["involvedObject.kind"], wanted["type"])
        ]
        more = {"continue": str(start + 1)} if start + 1 < len(result) else {}
        return 200, {"metadata": more, "items": result[start : start + 1]}


def event(reason: str, moment: str = "00:00:01", uid: str = "u", **more: Any) -> Body:
    normal = reason in ("Pulling", "Pulled", "Created", "Started")
    return {
        "involvedObject": {"kind": "Pod", "name": "a", "uid": uid},
        "type": "Normal" if normal else "Warning",
        "reason": reason,
        "message": "words",
        "lastTimestamp": f"2026-01-01T{moment}Z",
        **more,
    }


def recorded(api: Api, **facts: Any) -> Recorded:
    process = {"pod_name": "a", "container_name": "a", "uid": "u", **facts}
    return Recorded(OWNER, "rl", {"a": process}, connection={"kubeconfig": api.kubeconfig(), "context": "c"})


def status_after_watch(pods: Pods, **facts: Any) -> ProcessStatus:
    """Return the status of the process at the end of a watch with the default patience."""
    with serving(pods) as api:
        *_, seen = observe.watch(recorded(api, **facts), patience=60, limit=600)
    assert not isinstance(seen, SymphonyError)
    (result,) = seen
    return result


def status_now(pods: Pods, **facts: Any) -> ProcessStatus:
    with serving(pods) as api:
        (seen,) = observe.statuses([recorded(api, **facts)])
    assert not isinstance(seen, SymphonyError)
    (result,) = seen
    return result


def until(moment: float, before: Body, after: Body) -> Callable[[float], list[Body]]:
    return lambda now: [before if now < moment else after]


@pytest.mark.parametrize(
    "refused", [[410], [503], [403] * 1000], ids=["expired", "busy", "no right to watch"]
)
def test_watch_continues_after_refused_requests(clock: Clock, refused: list[int]) -> None:
    assert status_after_watch(Pods(clock, until(5, pod(CREATING), pod(RUNS)), watched=refused)).ready
    assert clock.now < 10


@pytest.mark.parametrize(
    "events",
    [
        [event("FailedScheduling")],
        [event("FailedMount", uid="of a pod before")],
        [event("FailedMount"), event("Pulling")],
        [event("Pulling", "00:00:02"), event("FailedMount")],
    ],
    ids=["no node yet", "another pod", "overcome in the same second", "told out of turn"],
)
def test_a_superseded_warning_event_is_ignored(clock: Clock, events: list[Body]) -> None:
    creating, runs = pod(CREATING, metadata=UID), pod(RUNS, metadata=UID)
    assert status_now(Pods(clock, lambda _: [creating], events=events)).why == "ContainerCreating"
    assert status_after_watch(Pods(clock, until(100, creating, runs), events=events)).ready


@pytest.mark.parametrize("reason", ["FailedMount", "NetworkNotReady"])
def test_watch_gives_up_on_a_pod_that_cannot_start_after_patience(clock: Clock, reason: str) -> None:
    """The reason is in an event on the second page that has only `eventTime`."""
    newest = event(reason, eventTime="2026-01-01T00:00:09.5Z", lastTimestamp=None)
    events = [event("FailedScheduling"), newest, event("Pulling", "00:00:02")]
    creating = pod(CREATING, metadata=UID)
    result = status_after_watch(Pods(clock, lambda _: [creating], events=events))
    assert result.why == f"ContainerCreating: {reason}: words"
    assert 60 < clock.now < 80


BAD = waits("ImagePullBackOff", 'Back-off pulling image "x"')


@pytest.mark.parametrize(
    "other",
    [pod(CREATING), pod(None, conditions=[]), pod(RUNS | {"ready": False})],
    ids=["pulls", "waits", "runs"],
)
def test_watch_gives_up_on_a_failed_image_pull_although_other_pods_are_still_starting(
    clock: Clock, other: Body
) -> None:
    other = {**other, "metadata": {**other["metadata"], "name": "b"}}
    with serving(Pods(clock, lambda _: [pod(BAD), other])) as api:
        of_a = recorded(api)
        both = replace(of_a, processes={**of_a.processes, "b": {**of_a.processes["a"], "pod_name": "b"}})
        (*_, result) = observe.watch(both, patience=60, limit=600)
    assert result[0].why.startswith("ImagePullBackOff")
    # watch._IMAGE_PATIENCE is 35 s, less than `patience`.
    assert 35 < clock.now < 55


def test_watch_tolerates_one_failed_pull_on_a_new_node(clock: Clock) -> None:
    """The new node was slow, and the second pull succeeds."""
    moments = [(120.0, pod(CREATING)), (140.0, pod(BAD)), (1000.0, pod(RUNS))]
    result = status_after_watch(
        Pods(clock, lambda now: [next(each for until, each in moments if now < until)])
    )
    assert result.ready


def test_watch_detects_a_crash_loop_that_kubelet_reports_late(clock: Clock) -> None:
    loop = pod(waits("CrashLoopBackOff"), ended(7))
    result = status_after_watch(
        Pods(
            clock,
            lambda now: [pod(CREATING) if now < 1 else pod(RUNS) if now < 7.2 else loop],
        ),
    )
    assert (result.state, result.why) == ("waiting", "CrashLoopBackOff: exit 7")


def test_watch_gives_up_on_a_crash_loop_although_the_pod_keeps_changing(
    clock: Clock,
) -> None:
    """The container runs for two seconds between ever longer back-offs."""

    def at(now: float) -> list[Body]:
        if now < 1:
            return [pod(CREATING, policy="OnFailure")]
        begun, pause, tries = 1.0, 10.0, 0
        while now >= begun + 2 + pause:
            begun, pause, tries = begun + 2 + pause, pause * 1.3, tries + 1
        runs = pod(RUNS, ended(1) if tries else None)
        result = runs if now < begun + 2 else pod(waits("CrashLoopBackOff"), ended(1))
        result["status"]["containerStatuses"][0]["restartCount"] = tries
        return [result]

    assert status_after_watch(Pods(clock, at)).why == "CrashLoopBackOff: exit 1"
    assert 60 < clock.now < 80


def test_watch_waits_once_for_many_processes_that_end_soon(clock: Clock) -> None:
    """They all end soon after starting; one second look is enough for all of them."""
    names = [f"p{number}" for number in range(40)]

    def pod_named(name: str, state: Body) -> Body:
        return pod(state, metadata={"name": name, "uid": name})

    def at(now: float) -> list[Body]:
        return [pod_named(name, CREATING if now < 1 else ended(0, "Completed")) for name in names]

    pods = Pods(clock, at)
    history = [pod_named(name, state) for state in (RUNS, ended(0, "Completed")) for name in names]
    events = chunked(*(json.dumps({"type": "MODIFIED", "object": each}).encode() + b"\n" for each in history))

    def answer(asked: Asked) -> Answer:
        if "watch=true" in asked.path and clock.now < 1:
            clock.now = 4
            return 200, events
        return pods(asked)

    with serving(answer) as api:
        processes = {name: {"pod_name": name, "container_name": "a", "uid": name} for name in names}
        (*_, result) = observe.watch(replace(recorded(api), processes=processes), patience=60, limit=600)
    assert {each.state for each in result} == {"completed"}
    assert clock.now < 10


DONE = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}]


@pytest.mark.parametrize(
    "existing_pods", [[], [pod(RUNS, metadata=GOING | {"labels": {"symphony/pod": "a"}})]]
)
def test_a_completed_job_without_pod_is_completed_and_not_restarted(
    clock: Clock, existing_pods: list[Body]
) -> None:
    job = thing("Job", "a", owner=OWNER, status={"conditions": DONE})
    pods, kept = Pods(clock, lambda _: existing_pods, jobs=[job]), {"controller": {"kind": "Job"}}
    for result in (status_now(pods, **kept), status_after_watch(pods, **kept)):
        assert (result.state, result.why, result.since) == ("completed", "", 1767225609.0)
    assert clock.now == 0
    with serving(pods) as api:
        assert observe.restart_reasons(recorded(api, **kept)) == {}


@pytest.mark.parametrize(
    ("job_uid", "why"),
    [("u", "not created: exceeded quota: q"), ("old", "its Job creates another pod")],
)
def test_events_of_an_earlier_job_with_the_same_name_are_ignored(
    clock: Clock, job_uid: str, why: str
) -> None:
    job = thing("Job", "a", owner=OWNER, status={})
    message = '(combined from similar events): Error creating: pods "a-9lk8t" is forbidden: exceeded quota: q'
    about = {"kind": "Job", "name": "a", "uid": job_uid}
    refused = event("FailedCreate", involvedObject=about, message=message)
    result = status_now(Pods(clock, lambda _: [], jobs=[job], events=[refused]), controller={"kind": "Job"})
    assert result.why == why


def test_watch_gives_up_and_tells_why_the_cluster_refuses_the_supervisor(clock: Clock) -> None:
    facts = {"waits_for": [{"path": "b", "condition": "ready"}], "supervisor": "s"}
    refused = event(
        "FailedCreate",
        involvedObject={"kind": "Job", "name": "s", "uid": "u"},
        message='Error creating: pods "s-9lk8t" is forbidden: exceeded quota: q',
    )
    job = thing("Job", "s", owner=OWNER, status={})
    starting = Pods(clock, lambda _: [gated()], jobs=[job])
    assert status_now(starting, **facts).why == "for b (ready)", "its Job is about to create its pod"
    result = status_after_watch(Pods(clock, lambda _: [gated()], jobs=[job], events=[refused]), **facts)
    assert (result.state, result.waits_for) == ("waiting", ())
    assert "supervisor s" in result.why
    assert "exceeded quota: q" in result.why
    assert 60 < clock.now < 80


def test_a_job_with_a_pod_stuck_on_a_dead_node_does_not_promise_another_pod(clock: Clock) -> None:
    job = thing("Job", "a", owner=OWNER, status={})
    notes = GOING | {"labels": {"symphony/pod": "a"}}
    gone = pod(RUNS, metadata=notes, conditions=EVICTED)
    pods, kept = Pods(clock, lambda _: [gone], jobs=[job]), {"controller": {"kind": "Job"}}
    result = status_now(pods, **kept)
    assert (result.state, result.why) == ("lost", "its node went")
    with serving(pods) as api:
        assert observe.restart_reasons(recorded(api, **kept)) == {"a": "lost: its node went"}
    ending = {**notes, "deletionTimestamp": datetime.now(UTC).isoformat()}
    on_its_way = Pods(clock, lambda _: [pod(RUNS, metadata=ending, conditions=EVICTED)], jobs=[job])
    assert status_now(on_its_way, **kept).why == "its Job creates another pod"


def test_status_counts_earlier_pods_of_a_job_as_restarts(clock: Clock) -> None:
    def attempt(number: int, state: Body) -> Body:
        made = f"2026-01-01T00:00:0{number}Z"
        notes = {"name": f"a-{number}", "creationTimestamp": made, "labels": {"symphony/pod": "a"}}
        return pod(state, metadata=notes)

    job = thing("Job", "a", owner=OWNER, status={})
    tries = [attempt(3, RUNS), attempt(1, ended(1)), attempt(2, ended(7))]
    result = status_now(Pods(clock, lambda _: tries, jobs=[job]), controller={"kind": "Job"})
    assert (result.state, result.restarts, result.last) == ("running", 2, "exit 7")
