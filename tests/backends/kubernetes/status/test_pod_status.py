"""The state and reason of a process, derived from its pod as the API shows it."""

from __future__ import annotations

from typing import Any

import pytest

from symphony.backends.kubernetes import pod_status, supervisor

NO_NODE = "0/5 nodes are available: 5 Insufficient cpu."


def pod(
    state: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    policy: str = "Never",
    **more: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "a", "state": state or {}, "restartCount": 3 if last else 0}
    if last:
        container["lastState"] = last
    container["ready"] = "running" in (state or {})
    metadata = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", **more.pop("metadata", {})}
    return {
        "metadata": metadata,
        "spec": {
            "containers": [{"name": "a", "image": "rl:9"}],
            "nodeName": "n",
            "restartPolicy": policy,
        },
        "status": {"containerStatuses": [container] if state is not None else [], **more},
    }


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "finishedAt": "2026-01-01T00:00:09Z",
        }
    }


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


# The disk of a machine is full while an image is pulled; the registry requires a login; the disk is full
# while a process writes.
FULL = (
    'failed to pull and unpack image "rl:9": failed to extract layer sha256:5f70bf18a086: write'
    " /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/412/fs/usr/lib/libtorch.so:"
    " no space left on device: unknown"
)
LOCKED = (
    'failed to pull and unpack image "rl:9": failed to resolve reference "rl:9": unexpected status from HEAD request'
    " to https://r.io/v2/rl/manifests/9: 401 Unauthorized"
)
LOW = "The node was low on resource: ephemeral-storage. Container a was using 9Gi, request is 0."
RUNS = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
UNSCHEDULED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_NODE}]
SILENT = [{"type": "Ready", "status": "False"}]
EVICTED = [
    {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "its node went",
    }
]
GOING = {"deletionTimestamp": "2026-01-01T00:00:10Z"}

# ruff: noqa: E501
CASES = [
    (pod(RUNS), "running", ""),
    (pod(RUNS, conditions=SILENT), "unknown", "its node n does not answer"),
    (pod(RUNS, metadata=GOING), "stopped", "being deleted"),
    (pod(RUNS, metadata=GOING, conditions=EVICTED), "lost", "its node went"),
    (pod(ended(0, "Completed")), "completed", ""),
    (pod(ended(0), policy="OnFailure"), "completed", ""),
    (pod(ended(5), policy="OnFailure"), "waiting", "restarting after exit 5"),
    (pod(ended(0), policy="Always"), "waiting", "restarting after exit 0"),
    (pod(ended(5), policy="Always", metadata=GOING), "failed", "exit 5"),
    (pod(ended(1, message="Traceback\nImportError: gym\n")), "failed", "exit 1: ImportError: gym"),
    (pod(ended(139)), "failed", "exit 139 (SIGSEGV)"),
    (pod(ended(137, "OOMKilled")), "failed", "out of memory, exit 137 (SIGKILL)"),
    (pod(None, conditions=UNSCHEDULED), "waiting", "Unschedulable: 5 Insufficient cpu"),
    (pod(waits("ErrImagePull", FULL)), "waiting", "ErrImagePull: rl:9: no space left on device"),
    (pod(waits("ImagePullBackOff", f"Back-off: {FULL}")), "waiting", "ImagePullBackOff: rl:9: no space left on device"),
    (pod(waits("ErrImagePull", LOCKED)), "waiting", "ErrImagePull: rl:9: 401 Unauthorized"),
    (pod(None, phase="Failed", reason="Evicted", message=LOW), "lost", f"Evicted: {LOW}"),
    (pod(waits("ErrImagePull", "failed to pull: rl:9: not found")), "waiting", "ErrImagePull: rl:9: not found"),
    (pod(waits("CrashLoopBackOff"), ended(2, message="no gpu")), "waiting", "CrashLoopBackOff: exit 2: no gpu"),
    (pod(waits("CreateContainerConfigError", 'secret "x" not found')), "waiting", 'CreateContainerConfigError: secret "x" not found'),
    (pod(waits("ContainerCreating")), "waiting", "ContainerCreating: FailedMount: no server"),
    (pod(None, phase="Failed", reason="Evicted", message="low on memory"), "lost", "Evicted: low on memory"),
    (pod(waits("PodInitializing"), phase="Failed", initContainerStatuses=[{"name": "clone-x", "state": ended(128)}]), "failed", "clone-x: exit 128"),
    (pod(ended(0, reason="OOMKilled")), "completed", pod_status.CHILD_KILLED),
    (pod(None), "waiting", "not started yet"),
    (None, "lost", "its pod no longer exists"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "state", "why"), CASES, ids=[f"{state}-{why[:20]}" for _, state, why in CASES]
)
def test_pod_maps_to_process_state_and_reason(thing: dict[str, Any] | None, state: str, why: str) -> None:
    status = pod_status.status("a", "a", thing, {"a": "FailedMount: no server"})
    assert (status.state, status.why) == (state, why)
    assert status.ready is (state == "running")


def test_status_has_the_restart_count_and_the_last_exit() -> None:
    status = pod_status.status("a", "a", pod(RUNS, ended(139)))
    assert (status.restarts, status.last) == (3, "exit 139 (SIGSEGV)")


@pytest.mark.parametrize(
    ("thing", "good"), [(pod(RUNS), True), (pod(ended(0)), True), (pod(ended(1)), False)]
)
def test_only_a_failed_pod_is_replaced_by_the_next_up(thing: dict[str, Any], good: bool) -> None:
    assert pod_status.is_good(thing) is good


def test_terminal_escapes_in_a_reason_are_made_printable() -> None:
    status = pod_status.status("a", "a", pod(ended(1, message="\x1b[2Jboo" + "x" * 999)))
    assert status.why.isprintable()
    assert len(status.why) <= pod_status.LONGEST


def test_status_names_a_program_missing_in_the_image():
    message = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create"
        " failed: unable to start container process: error during container init:"
        ' exec: "sh": executable file not found in $PATH: unknown'
    )
    status = pod_status.status("a", "a", pod(ended(128, "StartError", message), phase="Failed"))
    assert status.why == 'StartError, exit 128: the image has no program "sh"'
    again = pod_status.status("a", "a", pod(waits("RunContainerError", message)))
    assert again.why == 'RunContainerError: the image has no program "sh"'


def gated(**notes: str) -> dict[str, Any]:
    """Return a pod that waits for others, as the scheduler reports it."""
    blocked = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gates"}
    made = pod(metadata={"annotations": notes}, conditions=[blocked])
    made["spec"]["schedulingGates"] = [{"name": supervisor.GATE}]
    return made


@pytest.mark.parametrize(
    ("note", "state", "good"),
    [
        (supervisor.WHY, "waiting", True),
        (supervisor.BLOCKED, "blocked", False),
        (supervisor.STOPPED, "stopped", False),
    ],
)
def test_a_gated_pod_shows_the_reason_from_its_supervisor(note: str, state: str, good: bool) -> None:
    held = gated(**{note: "for prepare (completed)"})
    status = pod_status.status("a", "a", held)
    assert (status.state, status.why, status.ready) == (state, "for prepare (completed)", False)
    assert pod_status.is_good(held) == good
    assert not pod_status.is_hopeless(held)


def test_a_gated_pod_that_is_blocked_or_stopped_does_not_show_the_time_of_its_creation() -> None:
    made = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    since: dict[str, float | None] = {}
    for note in (supervisor.WHY, supervisor.BLOCKED, supervisor.STOPPED):
        held = gated(**{note: "why", supervisor.STOPPED_AT: "1767225700"})
        held["metadata"].update(made)
        since[note] = pod_status.status("a", "a", held).since
    assert since == {supervisor.WHY: 1767225600, supervisor.BLOCKED: None, supervisor.STOPPED: 1767225700}


def test_a_blocked_pod_stays_blocked_although_its_experiment_has_ended() -> None:
    for end in ("the time limit", supervisor.COMPLETED):
        held = gated(**{supervisor.BLOCKED: "prepare failed", supervisor.STOPPED: end})
        status = pod_status.status("a", "a", held)
        assert (status.state, status.why) == ("blocked", "prepare failed")


def test_a_pod_without_its_gate_no_longer_mentions_gates() -> None:
    free = gated()
    free["spec"]["schedulingGates"] = []
    assert "gates" not in pod_status.status("a", "a", free).why


def test_a_gated_pod_reports_that_its_supervisor_does_not_run() -> None:
    facts = {"waits_for": [{"path": "b", "condition": "ready"}], "supervisor": "s"}
    keeper = pod(waits("ErrImagePull", "no such image"))
    trouble = pod_status.supervisor_trouble(facts, {"s": keeper}, {})
    status = pod_status.gated_status(pod_status.status("a", "a", gated()), facts, trouble)
    assert status.waits_for == (), "so `up` reports a failure"
    assert all(word in status.why for word in ("b (ready)", "ErrImagePull"))
    worker = pod_status.gated_status(
        pod_status.status("a", "a", gated()), {**facts, "waits_for": []}, trouble
    )
    assert worker.why.startswith("for the other workers; "), "equal workers wait for each other"


@pytest.mark.parametrize("why", [supervisor.COMPLETED, "the time limit of 60 s (stop_after) is over"])
def test_a_pod_stopped_with_its_experiment_is_completed_or_stopped_but_not_failed(why: str) -> None:
    stopped = pod(ended(143), phase="Failed", metadata={"annotations": {supervisor.STOPPED: why}})
    status = pod_status.status("a", "a", stopped)
    is_completed = why == supervisor.COMPLETED
    assert (status.state, why in status.why) == ("completed" if is_completed else "stopped", True)
    # `up` restarts processes that a limit stopped.
    assert pod_status.is_good(stopped) == is_completed


def test_a_stopped_pod_that_never_got_a_node_is_stopped_although_it_stays_pending() -> None:
    notes = {"annotations": {supervisor.STOPPED: "the time limit of 60 s (stop_after) is over"}}
    stopped = pod(None, phase="Pending", conditions=UNSCHEDULED, metadata=notes)
    assert pod_status.status("a", "a", stopped).state == "waiting", "kubelet is about to end it"
    del stopped["spec"]["nodeName"]
    assert pod_status.status("a", "a", stopped).state == "stopped"


def test_a_process_that_failed_before_the_stop_stays_failed() -> None:
    notes = {supervisor.STOPPED: "a failed", supervisor.STOPPED_AT: "1767225660"}
    times = {
        "2026-01-01T00:00:59Z": "failed",
        "2026-01-01T00:01:00Z": "stopped",
        "2026-01-01T00:01:03Z": "stopped",
    }
    for finished, state in times.items():
        stopped = pod(ended(3), phase="Failed", metadata={"annotations": notes})
        stopped["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = finished
        assert pod_status.status("a", "a", stopped).state == state


def test_a_pod_evicted_to_restart_with_its_dependency_is_waiting() -> None:
    ending = pod({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    ending["metadata"] |= {
        "annotations": {supervisor.RESTARTS: "for b (ready), which restarted"},
        "deletionTimestamp": "2026-01-01T00:00:09Z",
    }
    assert pod_status.status("a", "a", ending).state == "waiting"


def test_a_log_probe_makes_ready_only_the_container_that_printed_the_line() -> None:
    running = pod({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    running["status"]["containerStatuses"][0] |= {"ready": True, "containerID": "x"}
    running["metadata"]["annotations"] = {supervisor.LOG_PROBES: '{"a": "up"}'}
    status = pod_status.status("a", "a", running)
    assert (status.state, status.ready) == ("running", False)
    assert "up" in status.why
    running["metadata"]["annotations"][supervisor.PRINTED] = '{"a": "x"}'
    assert pod_status.status("a", "a", running).ready


def test_a_running_process_that_does_not_listen_yet_names_the_port() -> None:
    running = pod({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    running["status"]["containerStatuses"][0]["ready"] = False
    running["spec"]["containers"][0]["startupProbe"] = {
        "exec": {"command": ["sh", "-c", "", "listens", "7001"]}
    }
    status = pod_status.status("a", "a", running)
    assert (status.state, status.ready) == ("running", False)
    assert "7001" in status.why


def test_status_has_the_exit_code_of_an_ended_process() -> None:
    assert pod_status.status("a", "a", pod(ended(3))).exit_code == 3
    assert pod_status.status("a", "a", pod({"running": {}})).exit_code is None
