"""`symphony why` for scripted pods: which link of the chain is broken, and its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from symphony.backends.kubernetes import observe, pod_status, supervisor, why
from symphony.backends.observe import Link, Recorded
from tests.backends.kubernetes.scripted_api import Answer, Asked, serving
from tests.backends.kubernetes.status.test_pod_status import RUNS, ended, pod, waits
from tests.backends.kubernetes.status.test_watch import event

Body = dict[str, Any]


def pod_with_sidecar(
    thing: Body, state: Body, started: bool = False, name: str = "proxy", policy: str = "Always"
) -> Body:
    """Return the pod with one more init container, which is a sidecar by default (policy)."""
    spec, status = thing["spec"], thing["status"]
    spec.setdefault("initContainers", []).append({"name": name, "image": "p:1", "restartPolicy": policy})
    result = {"name": name, "state": state, "started": started, "restartCount": 0}
    status.setdefault("initContainerStatuses", []).append(result)
    if "running" in (thing["status"]["containerStatuses"][0]["state"]):
        status["containerStatuses"][0]["imageID"] = "sha256:1"
    return thing


def links(thing: Body, events: Sequence[Body] = ()) -> list[Link]:
    recorded = {"container_name": "a", "image": "rl:9"}
    facts = why.Facts("a", recorded, thing, events, [], lambda *_: (), lambda: "")
    return list(why.chain(facts, "rl"))


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (
            pod(
                None,
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": 'persistentvolumeclaim "x" not found',
                    }
                ],
            ),
            "Create that claim",
        ),
        (
            pod(
                waits(
                    "CreateContainerConfigError",
                    'runAsNonRoot and image will run as root (pod: "a_b(c)", container: a)',
                )
            ),
            "runAsUser",
        ),
        (pod(waits("CreateContainerConfigError", 'secret "x" not found')), "its variables refer"),
    ],
)
def test_each_cause_has_its_own_remedy(thing: Body, words: str) -> None:
    if thing["status"].get("conditions"):
        del thing["spec"]["nodeName"]
    assert words in links(thing)[-1].remedy


def test_why_reports_out_of_memory_of_a_child_although_the_exit_code_is_0() -> None:
    result = links(pod(ended(0, reason="OOMKilled")))[-1]
    assert "out of memory" in result.what
    assert "resource_limit" in result.remedy


def test_why_of_a_process_that_ended_with_its_experiment_names_no_memory() -> None:
    stopped = pod(ended(143), phase="Failed")
    stopped["metadata"]["annotations"] = {supervisor.STOPPED: supervisor.COMPLETED}
    assert links(stopped)[-1].what == f"stopped: {supervisor.COMPLETED}"
    assert not links(stopped)[-1].remedy
    stopped["metadata"]["annotations"] = {supervisor.STOPPED: "the time limit of 8 h is over"}
    assert "symphony up" in links(stopped)[-1].remedy


QUOTA = {"metadata": {"name": "few"}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
RANGE = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}


def test_status_of_a_pod_never_created_names_every_rule_that_may_refuse_it() -> None:
    def answer(asked: Asked) -> Answer:
        kind = asked.path.partition("?")[0].rpartition("/")[2]
        return 200, {"items": {"resourcequotas": [QUOTA], "limitranges": [RANGE]}.get(kind, [])}

    with serving(answer) as api:
        link = why.read_chain(api.client(), Recorded("o", "rl", {}, not_created=("b",)), "b", "rl")[-1]
        # Both may refuse it: the quota is not the only cause.
        assert link.more == ("quota few: pods 1 of 1 used", "limit range small: at most 1 cpu per Container")
        connection = {"kubeconfig": api.kubeconfig()}
        (statuses,) = observe.statuses([Recorded("o", "rl", {}, connection=connection, not_created=("b",))])
        assert not isinstance(statuses, Exception)
        assert statuses[0].why.startswith("not created: quota few: pods 1 of 1 used")


def test_a_completed_job_whose_pod_is_gone_is_not_a_broken_link() -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    made = {
        "/apis/batch/v1/namespaces/rl/jobs": [{"metadata": {"name": "a"}, "status": {"conditions": [done]}}]
    }

    def answer(asked: Asked) -> Answer:
        return 200, {"items": made.get(asked.path.partition("?")[0], [])}

    facts = {"container_name": "a", "pod_name": "a", "image": "rl:9", "controller": {"kind": "Job"}}
    with serving(answer) as api:
        recorded = Recorded("o", "rl", {"a": facts}, connection={})
        result = why.read_chain(api.client(), recorded, "a", "rl")
    assert [(each.step, each.broken) for each in result] == [("planned", False), ("exit", False)]
    assert "Job is complete" in result[-1].what


@pytest.mark.parametrize("there", [False, True], ids=["gone", "failed"])
def test_why_and_process_both_say_the_job_creates_another_pod(there: bool) -> None:
    """Neither tells the user to run `up`: nothing needs to be done."""
    notes = {"metadata": {"labels": {"symphony/pod": "a"}}, "phase": "Failed"}
    made = {
        "/apis/batch/v1/namespaces/rl/jobs": [{"metadata": {"name": "a"}, "status": {}}],
        "/api/v1/namespaces/rl/pods": [pod(ended(1), **notes)] if there else [],
    }

    def answer(asked: Asked) -> Answer:
        return 200, {"items": made.get(asked.path.partition("?")[0], [])}

    facts = {"container_name": "a", "pod_name": "a", "image": "rl:9", "controller": {"kind": "Job"}}
    with serving(answer) as api:
        connection = {"kubeconfig": api.kubeconfig()}
        recorded = Recorded("o", "rl", {"a": facts}, connection=connection)
        last = why.read_chain(api.client(), recorded, "a", "rl")[-1]
        (seen,) = observe.statuses([recorded])
    assert isinstance(seen, list)
    (status,) = seen
    assert status.why == "its Job creates another pod"
    assert status.why in f"{last.what} {last.remedy}"
    assert "symphony up" not in f"{last.what} {last.remedy}"


def last_link(thing: Body, events: Sequence[Body] = ()) -> tuple[str, str, bool]:
    result = links(thing, events)
    assert not any(each.broken for each in result[:-1])
    return result[-1].step, result[-1].what, result[-1].broken


ENDED_WITH_IT = ended(143)


@pytest.mark.parametrize(
    "state", [RUNS, waits("CrashLoopBackOff"), ENDED_WITH_IT], ids=["well", "fails", "ended"]
)
def test_the_state_of_a_sidecar_does_not_affect_a_running_process(state: Body) -> None:
    assert last_link(pod_with_sidecar(pod(RUNS), state, started=state is RUNS)) == ("ready", "running", False)


def test_a_failed_process_is_not_blamed_on_the_sidecar_that_ended_with_it() -> None:
    assert last_link(pod_with_sidecar(pod(ended(1), phase="Failed"), ENDED_WITH_IT)) == (
        "exit",
        "exit 1",
        True,
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (waits("ImagePullBackOff"), ("pulled", "no: p:1: ImagePullBackOff")),
        (waits("CrashLoopBackOff"), ("prepared", "no: proxy: ")),
        (waits("CreateContainerError", "no"), ("prepared", "no: proxy: CreateContainerError: no")),
        (RUNS, ("prepared", "proxy is running")),
    ],
    ids=["image", "crash", "start", "not started yet"],
)
def test_a_sidecar_that_prevents_the_start_is_the_broken_link(state: Body, expected: tuple[str, str]) -> None:
    step, what, broken = last_link(pod_with_sidecar(pod(waits("PodInitializing")), state))
    assert (step, what, broken) == (*expected, True)


def test_a_failed_init_container_is_blamed_rather_than_a_sidecar() -> None:
    failed = pod_with_sidecar(pod(waits("PodInitializing"), phase="Failed"), ENDED_WITH_IT)
    failed = pod_with_sidecar(failed, ended(128), name="clone-x", policy="Never")
    assert last_link(failed)[:2] == ("prepared", "no: clone-x: exit 128")
    assert pod_status.status("a", "a", failed).why == "clone-x: exit 128"


def test_a_crashing_process_is_blamed_although_a_sidecar_crashes_too() -> None:
    both = pod_with_sidecar(pod(waits("CrashLoopBackOff"), ended(1)), waits("CrashLoopBackOff"))
    assert pod_status.status("a", "a", both).why == "CrashLoopBackOff: exit 1"


def test_an_old_mount_failure_is_ignored_once_the_image_is_being_pulled() -> None:
    creating = pod(waits("ContainerCreating"))
    assert last_link(creating, [event("FailedMount")]) == ("prepared", "no: FailedMount: words", True)
    later = [event("FailedMount"), event("Pulling", "00:00:02")]
    assert last_link(creating, later) == ("pulled", "not yet: the image is being pulled", True)


@pytest.mark.parametrize(("moment", "is_named"), [("00:00:05", True), ("00:05:00", False)])
def test_why_names_the_liveness_probe_for_which_a_process_was_killed(moment: str, is_named: bool) -> None:
    message = "Liveness probe failed: HTTP probe failed with statuscode: 503"
    failure = event("Unhealthy", moment, message=message)
    assert (message in links(pod(ended(137)), [failure])[-1].what) == is_named
    restarted = pod({"running": {"startedAt": "2026-01-01T00:00:10Z"}}, ended(137), "OnFailure")
    assert (message in links(restarted, [failure])[-1].what) == is_named
