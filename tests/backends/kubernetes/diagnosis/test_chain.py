"""The chain of `symphony why` for pods as the API shows them; test_why.py has those of a real cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from symphony.backends.kubernetes import observe, why
from symphony.backends.kubernetes.status import pod_status, reasons
from symphony.backends.observe import Link, Recorded
from tests.backends.kubernetes.scripted_api import Answer, Asked, serving
from tests.backends.kubernetes.status.test_pod_status import RUNS, ended, pod, waits
from tests.backends.kubernetes.status.test_watch import event

Body = dict[str, Any]


def beside(
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
def test_a_remedy_is_for_its_cause(thing: Body, words: str) -> None:
    if thing["status"].get("conditions"):
        del thing["spec"]["nodeName"]
    assert words in links(thing)[-1].remedy


def test_a_process_whose_child_was_killed_for_memory_says_so() -> None:
    result = links(pod(ended(0, reason="OOMKilled")))[-1]
    assert "out of memory" in result.what
    assert "resource_limit" in result.remedy


def test_a_limit_range_is_named_where_no_quota_is_used_up() -> None:
    def answer(asked: Asked) -> Answer:
        return 200, {"items": [RANGE] if "limitranges" in asked.path else []}

    with serving(answer) as api:
        (rule,) = reasons.admission_rules(api.client(), "rl")
        assert rule == "limit range small: at most 1 cpu a Container"


QUOTA = {"metadata": {"name": "few"}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
RANGE = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}


def test_a_process_that_was_never_made_names_what_refuses_it() -> None:
    def answer(asked: Asked) -> Answer:
        kind = asked.path.partition("?")[0].rpartition("/")[2]
        return 200, {"items": {"resourcequotas": [QUOTA], "limitranges": [RANGE]}.get(kind, [])}

    with serving(answer) as api:
        link = why.read_chain(api.client(), Recorded("o", "rl", {}, unmade=("b",)), "b", "rl")[-1]
        assert link.more == ("quota few: pods 1 of 1 used",)
        connection = {"kubeconfig": api.kubeconfig()}
        (statuses,) = observe.statuses([Recorded("o", "rl", {}, connection=connection, unmade=("b",))])
        assert not isinstance(statuses, Exception)
        assert statuses[0].why.startswith("not created: quota few: pods 1 of 1 used")


def test_a_job_that_is_done_is_no_broken_link_without_its_pod() -> None:
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
def test_why_and_process_agree_while_a_job_replaces_its_pod(there: bool) -> None:
    """It does not say that `up` starts it again: the user need not do anything."""
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


def end(thing: Body, events: Sequence[Body] = ()) -> tuple[str, str, bool]:
    result = links(thing, events)
    assert not any(each.broken for each in result[:-1])
    return result[-1].step, result[-1].what, result[-1].broken


ENDED_WITH_IT = ended(143)


@pytest.mark.parametrize(
    "state", [RUNS, waits("CrashLoopBackOff"), ENDED_WITH_IT], ids=["well", "fails", "ended"]
)
def test_a_sidecar_is_no_link_of_a_process_that_runs(state: Body) -> None:
    assert end(beside(pod(RUNS), state, started=state is RUNS)) == ("ready", "running", False)


def test_a_sidecar_that_was_ended_with_its_pod_is_not_blamed() -> None:
    assert end(beside(pod(ended(1), phase="Failed"), ENDED_WITH_IT)) == ("exit", "exit 1", True)


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
def test_a_sidecar_that_keeps_a_process_from_starting_is(state: Body, expected: tuple[str, str]) -> None:
    step, what, broken = end(beside(pod(waits("PodInitializing")), state))
    assert (step, what, broken) == (*expected, True)


def test_an_init_container_that_failed_is_blamed_beside_a_sidecar() -> None:
    failed = beside(pod(waits("PodInitializing"), phase="Failed"), ENDED_WITH_IT)
    failed = beside(failed, ended(128), name="clone-x", policy="Never")
    assert end(failed)[:2] == ("prepared", "no: clone-x: exit 128")
    assert pod_status.status("a", "a", failed).why == "clone-x: exit 128"


def test_a_process_that_crashes_is_blamed_for_it_beside_a_sidecar_that_does() -> None:
    both = beside(pod(waits("CrashLoopBackOff"), ended(1)), waits("CrashLoopBackOff"))
    assert pod_status.status("a", "a", both).why == "CrashLoopBackOff: exit 1"


def test_a_mount_that_came_late_is_no_link_while_the_image_is_pulled() -> None:
    creating = pod(waits("ContainerCreating"))
    assert end(creating, [event("FailedMount")]) == ("prepared", "no: FailedMount: words", True)
    later = [event("FailedMount"), event("Pulling", "00:00:02")]
    assert end(creating, later) == ("pulled", "not yet: the image is being pulled", True)
