"""The decisions of the supervisor pod: which pods it starts, blocks, restarts and stops (scripted pods)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.supervisor import BLOCKED, STOPPED, WHY

NOW = supervisor.created_at({"metadata": {"creationTimestamp": "2026-01-01T01:00:00Z"}})
STARTS = {"schedulingGates": [{"$patch": "delete", "name": supervisor.GATE}]}
RUNNING = {"running": {"startedAt": "2026-01-01T00:30:00Z"}}


def pod(state: Any = None, *, ready: Any = False, policy: str = "Never", **notes: str) -> dict[str, Any]:
    """Return a pod created an hour ago; without a state it is still gated."""
    gates = [{"name": supervisor.GATE}] if state is None else []
    ended = (state or {}).get("terminated")
    phase = "Pending" if state is None else "Running"
    if ended and (policy == "Never" or (policy == "OnFailure" and ended["exitCode"] == 0)):
        phase = "Failed" if ended["exitCode"] else "Succeeded"
    status = {"name": "main", "state": state or {}, "ready": ready}
    return {
        "metadata": {"uid": "", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": notes},
        "spec": {"schedulingGates": gates, "restartPolicy": policy, "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


def exited(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:59:00Z"}}


def orders(
    condition: str = "ready",
    timeout: float | None = None,
    primary: str = "",
    *,
    restarts: bool = False,
    serves: bool = False,
    **more: Any,
) -> Mapping[str, Any]:
    """Return supervisor orders in which b waits for a."""
    place = {"path": "a", "pod": "a", "container": "main"}
    wait = {**place, "condition": condition, "timeout": timeout, "restart_with": restarts, "serves": serves}
    primaries = [{"path": primary, "pod": primary, "container": "main"}] if primary else []
    return {
        "waits": [wait],
        "pods": {"b": [0]},
        "primary": primaries,
        "stop_after": None,
        "idle_after": None,
        "notify": [],
        "equal": [],
        "delays": {},
        "logs": [],
        **more,
    }


def decided(orders: Mapping[str, Any], jobs: Any = (), **pods: Any) -> dict[str, Any]:
    return dict(supervisor.decide(orders, pods, jobs, NOW))


def notes(patch: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a patch."""
    every = patch["metadata"]["annotations"].items()
    return {name.partition("/")[2]: text for name, text in every if text}


@pytest.mark.parametrize(
    ("condition", "a", "outcome"),
    [
        ("started", pod(RUNNING), "starts"),
        ("started", pod({"waiting": {"reason": "ErrImagePull"}}), "waits"),
        ("started", pod(exited(3)), "starts"),
        ("ready", pod(RUNNING, ready=True), "starts"),
        ("ready", pod(RUNNING), "waits"),
        ("ready", pod(exited(0)), "starts"),
        ("completed", pod(RUNNING, ready=True), "waits"),
        ("completed", pod(exited(0)), "starts"),
        ("completed", pod(exited(3)), "blocked"),
        ("completed", pod(exited(3), policy="OnFailure"), "waits"),
        ("completed", pod(exited(0), policy="Always"), "waits"),
        ("ended", pod(exited(3)), "starts"),
        ("ready", pod(exited(3)), "blocked"),
        ("completed", pod(), "waits"),
        ("completed", None, "waits"),
    ],
)
def test_a_pod_starts_waits_or_is_blocked_by_the_state_of_its_dependency(
    condition: str, a: Any, outcome: str
) -> None:
    pods = {"b": pod()} | ({"a": a} if a is not None else {})
    patch = decided(orders(condition), **pods)["b"]
    decision = (
        "starts" if patch.get("spec") == STARTS else "blocked" if "blocked" in notes(patch) else "waits"
    )
    assert decision == outcome
    assert decision == "starts" or "a" in "".join(notes(patch).values())


def test_an_unchanged_status_is_not_written_again() -> None:
    (patch,) = decided(orders("completed"), a=pod(RUNNING), b=pod()).values()
    words = notes(patch)["why"]
    assert decided(orders("completed"), a=pod(RUNNING), b=pod(**{WHY: words})) == {}


def test_a_blocked_pod_blocks_its_dependents_until_its_dependency_runs_again() -> None:
    patch = decided(orders("completed"), a=pod(**{BLOCKED: "x failed"}), b=pod())["b"]
    assert notes(patch) == {"blocked": "a is blocked"}
    mended = decided(orders("completed"), a=pod(RUNNING), b=pod(**{BLOCKED: "a is blocked"}))["b"]
    assert (mended["metadata"]["annotations"][BLOCKED], notes(mended)) == (None, {"why": "for a (completed)"})


def test_the_timeout_of_a_wait_counts_from_the_start_of_the_dependency() -> None:
    # The dependency has run for half an hour.
    assert "blocked" in notes(decided(orders("ready", 1700), a=pod(RUNNING), b=pod())["b"])
    assert "why" in notes(decided(orders("ready", 1900), a=pod(RUNNING), b=pod())["b"])
    # The dependency itself still waits, was just released, or is being replaced.
    released = pod({"waiting": {"reason": "ContainerCreating"}}, **{supervisor.RELEASED: f"{NOW - 50:.0f}"})
    for a in ({"a": pod()}, {"a": released}, {}):
        assert "why" in notes(decided(orders("ready", 60), **a, b=pod())["b"])
    assert "blocked" in notes(decided(orders("ready", 40), a=released, b=pod())["b"])


def test_an_ended_server_is_not_ready() -> None:
    assert "blocked" in notes(decided(orders("ready", serves=True), a=pod(exited(0)), b=pod())["b"])


def test_equal_workers_restart_when_one_is_replaced_and_start_when_all_old_pods_have_ended() -> None:
    equal = orders(pods={}, equal=[["a", "b", "c"]])
    first = decided(equal, a=_worker("a1"), b=_worker("b1"), c=_worker("c1"), other=pod(RUNNING))
    assert {name: patch["spec"] for name, patch in first.items()} == dict.fromkeys("abc", STARTS)
    met = first["a"]["metadata"]["annotations"]
    # The supervisor was killed before it had started all of them.
    assert decided(equal, a=_worker("a1", RUNNING, **met), b=_worker("b1"), c=_worker("c1")) == {
        name: first[name] for name in "bc"
    }
    # The Job of b has made no other pod yet.
    running = {name: _worker(f"{name}1", RUNNING, **met) for name in "ac"}
    assert decided(equal, **running, b=_worker("b1", exited(3), **met)) == {}
    again = decided(equal, **running, b=_worker("b2"))
    assert {name: notes(patch) for name, patch in again.items()} == {
        "a": {"restarts": "for the other workers: b started again"},
        "b": {"why": "for the other workers: a, c", "began": f"{NOW - 3600:.0f}"},
        "c": {"restarts": "for the other workers: b started again"},
    }
    ending = _worker("c1", RUNNING, **met)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z"
    assert "c" in notes(decided(equal, a=_worker("a2"), b=_worker("b2"), c=ending)["a"])["why"]
    assert "c" in notes(decided(equal, a=_worker("a2"), b=_worker("b2"))["a"])["why"]
    together = decided(equal, a=_worker("a2"), b=_worker("b2"), c=_worker("c2"))
    assert all(patch["spec"] == STARTS for patch in together.values())


@pytest.mark.parametrize("code", [0, 3])
def test_equal_workers_wait_for_none_that_has_ended_for_good(code: int) -> None:
    pods = {"a": _worker("a1", exited(code), **{supervisor.MET: '["a1", "b1"]'}), "b": _worker("b2")}
    assert decided(orders(pods={}, equal=[["a", "b"]]), **pods)["b"]["spec"] == STARTS


@pytest.mark.parametrize("a", [RUNNING, exited(3)])
def test_a_limit_counts_on_where_equal_workers_start_again(a: Any) -> None:
    ends = orders(pods={}, equal=[["a", "b"]], stop_after=4000)
    old = _worker("a1", a, **{supervisor.BEGAN: f"{NOW - 3999:.0f}"})
    old["metadata"]["ownerReferences"] = [{"name": "a", "controller": True}]
    patch = decided(ends, a=old, b=_worker("b2"))["b"]
    again = _worker("b2", RUNNING, **patch["metadata"]["annotations"])
    assert set(dict(supervisor.decide(ends, {"b": again}, (), NOW + 1))) == {"b"}
    anew = decided(ends, ("a",), a=_worker("a1", exited(3), **{supervisor.BEGAN: "1"}), b=_worker("b2"))
    assert anew["b"]["metadata"]["annotations"][supervisor.BEGAN] == f"{NOW - 3600:.0f}"


def test_what_a_job_makes_again_after_a_stop_stays_stopped_until_an_up_replaces_the_job() -> None:
    def pod_of_job(job: str, pod: dict[str, Any]) -> dict[str, Any]:
        owner = {"name": job, "uid": job, "controller": True}
        pod["metadata"] |= {"labels": {supervisor.POD: "a"}, "ownerReferences": [owner]}
        return pod

    stopped, again = pod_of_job("1", pod(exited(143), **{STOPPED: "8 h"})), pod_of_job("1", pod())
    again["metadata"]["creationTimestamp"] = "2026-01-01T00:59:59Z"
    alone = orders(pods={}, equal=[["a"]])
    held = decided(alone, **supervisor._by_name({"a-1": stopped, "a-2": again}))["a"]
    assert ("spec" in held, notes(held)["stopped"]) == (False, "8 h")
    assert decided(alone, a=pod_of_job("1", pod(**{STOPPED: "8 h"}))) == {}
    replaced = pod_of_job("2", _worker("a2"))
    replaced["metadata"]["creationTimestamp"] = "2026-01-01T00:59:59Z"
    started = decided(alone, **supervisor._by_name({"a-1": stopped, "a-2": replaced}))["a"]
    assert started["spec"] == STARTS


def _worker(uid: str, state: Any = None, **notes: str) -> dict[str, Any]:
    worker = pod(state, **notes)
    worker["metadata"]["uid"] = uid
    return worker


def _started(pod: dict[str, Any], start: str) -> dict[str, Any]:
    pod["status"]["containerStatuses"][0]["containerID"] = start
    return pod


def test_a_log_probe_counts_only_for_the_start_that_printed_the_line() -> None:
    printed = {supervisor.LOG_PROBES: '{"main": "up"}', supervisor.PRINTED: '{"main": "x"}'}
    is_ready = (
        decided(orders(), a=_started(pod(RUNNING, ready=True, **printed), "x"), b=pod())["b"].get("spec")
        == STARTS
    )
    assert is_ready
    other = _started(pod(RUNNING, ready=True, **printed), "y")
    assert "why" in notes(decided(orders(), a=other, b=pod())["b"])


def test_a_failed_pod_of_a_job_blocks_only_once_the_job_has_failed() -> None:
    failed = pod(exited(3))
    failed["metadata"]["ownerReferences"] = [{"name": "a-job", "controller": True}]
    assert "why" in notes(decided(orders("completed"), a=failed, b=pod())["b"])
    assert "blocked" in notes(decided(orders("completed"), ("a-job",), a=failed, b=pod())["b"])


def test_a_pod_that_is_being_deleted_is_ignored() -> None:
    old = pod(exited(0))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z"
    assert "why" in notes(decided(orders("completed"), a=old, b=pod())["b"])


def test_other_pods_stop_after_their_delays_once_the_primary_is_blocked() -> None:
    ends = orders(primary="a", delays={"a": 90, "slow": 90}, pods={})
    pods = {"a": pod(**{BLOCKED: "prepare failed"}), "slow": pod(RUNNING)}
    (name, patch) = next(iter(decided(ends, **pods).items()))
    assert (name, notes(patch)["stopped"]) == ("a", "a is blocked: prepare failed")
    for text in patch["metadata"]["annotations"].items():
        pods["a"]["metadata"]["annotations"][text[0]] = text[1]
    assert dict(supervisor.decide(ends, pods, (), NOW + 89)) == {}
    assert set(dict(supervisor.decide(ends, pods, (), NOW + 91))) == {"slow"}


def test_the_end_names_the_cause_of_a_blocked_primary() -> None:
    failed = pod(**{BLOCKED: "prepare failed: exit 3"})
    stopped = decided(orders(primary="b"), a=failed, b=pod(**{BLOCKED: "a is blocked"}), c=pod(RUNNING))
    assert notes(stopped["c"])["stopped"] == "b is blocked: prepare failed: exit 3"


def test_notify_gets_the_state_and_the_processes_that_ended_the_experiment() -> None:
    def end(primary: str = "", total: int = 2, **pods: dict[str, Any]) -> Any:
        for name, made in pods.items():
            made["spec"]["containers"][0]["name"] = made["status"]["containerStatuses"][0]["name"] = name
        own = orders(total=total, primary=primary)
        for place in own["primary"]:
            place["container"] = place["pod"]
        return supervisor.end_facts(own, pods, ())

    def facts(state: str, code: str, why: str, *paths: str) -> Any:
        causes = [{"path": path, "pod": path, "container": path} for path in paths]
        return {"STATE": state, "EXIT": code, "WHY": why}, causes

    completed = facts("completed", "0", "a, b completed", "a", "b")
    assert end(a=pod(exited(0)), b=pod(exited(0))) == completed
    assert end(a=pod(exited(0)), b=pod(exited(3))) == facts("failed", "3", "b failed: exit 3", "b")
    assert end(a=pod(exited(3)), b=pod(RUNNING)) is None
    assert end(a=pod(exited(0)), total=2) is None, "the other pod is not there yet"
    assert end("a", a=pod(exited(3)), b=pod(RUNNING)) == facts("failed", "3", "a failed: exit 3", "a")
    assert end("a", a=pod(exited(0)), b=pod(RUNNING)) == facts("completed", "0", "a completed", "a")
    late = {STOPPED: "the time limit"}
    stopped = facts("stopped", "124", "the time limit", "a")
    # Also once the stopped primary has ended.
    assert end("a", a=pod(RUNNING, **late), b=pod(RUNNING, **late)) == stopped
    assert end("a", a=pod(exited(143), **late), b=pod(exited(143), **late)) == stopped
    blocked = {BLOCKED: "b failed"}
    failed = facts("failed", "1", "a is blocked: b failed", "a", "b")
    assert end("a", a=pod(**blocked), b=pod(exited(3))) == failed
    # Also once the blocked primary is stopped.
    assert end("a", a=pod(**blocked, **{STOPPED: "a is blocked"}), b=pod(exited(3))) == failed
    gone = pod(exited(0))
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z"
    assert end(a=gone, b=pod(exited(0))) is None, "it is being deleted"


def test_notify_runs_once_although_up_replaces_other_pods(tmp_path: Path) -> None:
    class Api:
        def now(self) -> float:
            return NOW

        def last_lines(self, pod: dict[str, Any], container: str) -> str:
            return "done"

        def patch(self, pod: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
            pod["metadata"]["annotations"] |= patch["metadata"]["annotations"]
            return pod

    told = tmp_path / "told"
    command = ["sh", "-c", f'echo "$NAME $STATE $LAST_LINES" >>{told}']
    own = orders(primary="b", total=2, name="rl", notify=command)
    pods = {"a": pod(RUNNING), "b": pod(exited(0))}
    for uid in ("first", "replaced"):
        pods["a"] = pod(RUNNING)
        pods["a"]["metadata"]["uid"] = uid
        supervisor._notify(own, pods, (), Api())  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    assert told.read_text() == "rl completed done\n"


def test_an_exited_primary_is_never_stopped_itself() -> None:
    late = pod(exited(3))
    late["status"]["phase"] = "Running"
    assert set(decided(orders(primary="a", pods={}), a=late, c=pod(RUNNING))) == {"c"}


@pytest.mark.parametrize(("a", "is_over"), [(pod(RUNNING), False), (pod(exited(1)), True), (pod(), False)])
def test_a_failed_primary_stops_the_other_pods(a: Any, is_over: bool) -> None:
    stopped = decided(orders(primary="a", pods={}), a=a, c=pod(RUNNING))
    assert ("c" in stopped and "failed" in stopped["c"]["metadata"]["annotations"][STOPPED]) == is_over


def test_stop_after_counts_from_the_oldest_pod() -> None:
    assert set(decided(orders(stop_after=3600), a=pod(exited(0)), c=pod(RUNNING))) == {"c"}
    assert decided(orders(stop_after=3601), c=pod(RUNNING)) == {}
