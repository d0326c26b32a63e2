"""The decisions of the pod that keeps the order of an experiment, on pods as the API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from symphony.backends.kubernetes import supervisor
from symphony.backends.kubernetes.supervisor import BLOCKED, COMPLETED, STOPPED, WHY

NOW = supervisor.created({"metadata": {"creationTimestamp": "2026-01-01T01:00:00Z"}})
STARTS = {"spec": {"schedulingGates": [{"$patch": "delete", "name": supervisor.GATE}]}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:30:00Z"}}


def pod(state: Any = None, *, ready: Any = False, policy: str = "Never", **notes: str) -> dict[str, Any]:
    """Return a pod made an hour before; one without a state is held back."""
    gates = [{"name": supervisor.GATE}] if state is None else []
    ended = (state or {}).get("terminated")
    phase = "Pending" if state is None else "Running"
    if ended and (policy == "Never" or (policy == "OnFailure" and ended["exitCode"] == 0)):
        phase = "Failed" if ended["exitCode"] else "Succeeded"
    status = {"name": "main", "state": state or {}, "ready": ready}
    return {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": notes},
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
    """Return orders by which b waits for a."""
    place = {"path": "a", "pod": "a", "container": "main"}
    wait = {**place, "condition": condition, "timeout": timeout, "restart_with": restarts, "serves": serves}
    primaries = [{"path": primary, "pod": primary, "container": "main"}] if primary else []
    return {
        "waits": [wait],
        "pods": {"b": [0]},
        "primary": primaries,
        "stop_after": None,
        "delays": {},
        "logs": [],
        **more,
    }


def decided(orders: Mapping[str, Any], jobs: Any = (), **pods: Any) -> dict[str, Any]:
    return dict(supervisor.decide(orders, pods, jobs, NOW))


def notes(patch: Mapping[str, Any]) -> dict[str, str]:
    """Return what a patch says."""
    every = patch["metadata"]["annotations"].items()
    return {name.partition("/")[2]: text for name, text in every if text}


@pytest.mark.parametrize(
    ("condition", "a", "outcome"),
    [
        ("started", pod(RUNNING), "starts"),
        ("started", pod({"waiting": {"reason": "ErrImagePull"}}), "waits"),
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
def test_a_pod_starts_when_what_it_waits_for_has_come_so_far(condition: str, a: Any, outcome: str) -> None:
    pods = {"b": pod()} | ({"a": a} if a is not None else {})
    patch = decided(orders(condition), **pods)["b"]
    told = "starts" if patch == STARTS else "blocked" if "blocked" in notes(patch) else "waits"
    assert told == outcome
    assert told == "starts" or "a" in "".join(notes(patch).values())


def test_an_unchanged_status_is_not_written_again() -> None:
    (patch,) = decided(orders("completed"), a=pod(RUNNING), b=pod()).values()
    words = notes(patch)["why"]
    assert decided(orders("completed"), a=pod(RUNNING), b=pod(**{WHY: words})) == {}


def test_a_blocked_pod_blocks_what_waits_for_it_and_waits_again_once_it_is_mended() -> None:
    patch = decided(orders("completed"), a=pod(**{BLOCKED: "x failed"}), b=pod())["b"]
    assert notes(patch) == {"blocked": "a is blocked"}
    mended = decided(orders("completed"), a=pod(RUNNING), b=pod(**{BLOCKED: "a is blocked"}))["b"]
    assert (mended["metadata"]["annotations"][BLOCKED], notes(mended)) == (None, {"why": "for a (completed)"})


def test_a_wait_is_over_at_its_deadline_which_counts_while_the_other_runs() -> None:
    # It has run for half an hour.
    assert "blocked" in notes(decided(orders("ready", 1700), a=pod(RUNNING), b=pod())["b"])
    assert "why" in notes(decided(orders("ready", 1900), a=pod(RUNNING), b=pod())["b"])
    # It waits itself.
    assert "why" in notes(decided(orders("ready", 60), a=pod(), b=pod())["b"])


def test_a_server_that_has_ended_is_not_ready() -> None:
    assert "blocked" in notes(decided(orders("ready", serves=True), a=pod(exited(0)), b=pod())["b"])


def test_a_pod_restarts_with_another_once_that_has_started_again() -> None:
    together = orders("started", restarts=True)
    started = decided(together, a=_started(pod(RUNNING), "x"), b=pod())["b"]["metadata"]["annotations"]
    assert decided(together, a=_started(pod(RUNNING), "x"), b=pod(RUNNING, **started)) == {}
    # It has ended, and is on its way again.
    gone = pod({"waiting": {"reason": "ContainerCreating"}})
    assert decided(together, a=gone, b=pod(RUNNING, **started)) == {}
    patch = decided(together, a=_started(pod(RUNNING), "y"), b=pod(RUNNING, **started))["b"]
    assert "a (started)" in notes(patch)["restarts"]
    # It says so already, and has ended by itself.
    again = {**started, **patch["metadata"]["annotations"]}
    assert decided(together, a=_started(pod(RUNNING), "y"), b=pod(RUNNING, **again)) == {}
    assert decided(together, a=_started(pod(RUNNING), "y"), b=pod(exited(0), **started)) == {}


def _started(pod: dict[str, Any], start: str) -> dict[str, Any]:
    pod["status"]["containerStatuses"][0]["containerID"] = start
    return pod


def test_a_probe_by_log_makes_ready_the_start_that_has_printed_the_line() -> None:
    printed = {supervisor.LOG_PROBES: '{"main": "up"}', supervisor.PRINTED: '{"main": "x"}'}
    is_ready = decided(orders(), a=_started(pod(RUNNING, ready=True, **printed), "x"), b=pod())["b"] == STARTS
    assert is_ready
    other = _started(pod(RUNNING, ready=True, **printed), "y")
    assert "why" in notes(decided(orders(), a=other, b=pod())["b"])


def test_a_failure_of_a_job_counts_once_the_job_makes_no_other_pod() -> None:
    failed = pod(exited(3))
    failed["metadata"]["ownerReferences"] = [{"name": "a-job", "controller": True}]
    assert "why" in notes(decided(orders("completed"), a=failed, b=pod())["b"])
    assert "blocked" in notes(decided(orders("completed"), ("a-job",), a=failed, b=pod())["b"])


def test_an_old_pod_that_is_being_replaced_does_not_count() -> None:
    old = pod(exited(0))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z"
    assert "why" in notes(decided(orders("completed"), a=old, b=pod())["b"])


def test_the_others_are_stopped_when_the_primary_has_completed_after_their_delays() -> None:
    ends = orders(primary="a", delays={"slow": 90})
    pods = {"a": pod(exited(0)), "b": pod(), "c": pod(RUNNING), "slow": pod(RUNNING)}
    stopped = decided(ends, **pods)
    # The primary completed a minute ago.
    assert set(stopped) == {"b", "c"}
    assert {patch["metadata"]["annotations"][STOPPED] for patch in stopped.values()} == {COMPLETED}
    assert stopped["c"]["spec"] == {"activeDeadlineSeconds": 1}
    assert "spec" not in stopped["b"], "one that never started keeps its gate"


def test_a_primary_that_has_ended_is_not_stopped_before_its_phase_says_so() -> None:
    late = pod(exited(3))
    late["status"]["phase"] = "Running"
    assert set(decided(orders(primary="a", pods={}), a=late, c=pod(RUNNING))) == {"c"}


@pytest.mark.parametrize(("a", "is_over"), [(pod(RUNNING), False), (pod(exited(1)), True), (pod(), False)])
def test_a_primary_that_failed_ends_the_experiment(a: Any, is_over: bool) -> None:
    stopped = decided(orders(primary="a", pods={}), a=a, c=pod(RUNNING))
    assert ("c" in stopped and "failed" in stopped["c"]["metadata"]["annotations"][STOPPED]) == is_over


def test_an_experiment_stops_at_its_limit_which_counts_from_its_oldest_pod() -> None:
    assert set(decided(orders(stop_after=3600), a=pod(exited(0)), c=pod(RUNNING))) == {"c"}
    assert decided(orders(stop_after=3601), c=pod(RUNNING)) == {}
