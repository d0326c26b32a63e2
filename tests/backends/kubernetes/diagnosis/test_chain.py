"""`symphony why` for scripted pods: which link of the chain is broken, and its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from symphony.backends.kubernetes import observe, pod_status, reasons, supervisor, why
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.observe import Link, Recorded
from tests.backends.kubernetes.scripted_api import Answer, Asked, client_to, serving
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
    facts = why.Facts(
        "a", recorded, thing, events, services=[], last_lines=lambda *_: (), schedulable=lambda: ""
    )
    return list(why.chain(facts, "rl"))


def stopped(why: str) -> Body:
    """Return a pod that the supervisor stopped with its experiment."""
    return pod(ended(143), phase="Failed", metadata={"annotations": {supervisor.STOPPED: why}})


def unscheduled(message: str) -> Body:
    thing = pod(None, conditions=[{"type": "PodScheduled", "status": "False", "message": message}])
    del thing["spec"]["nodeName"]
    return thing


ROOT_USER = 'runAsNonRoot and image will run as root (pod: "a_b(c)", container: a)'
LIMIT = "the time limit of 8 h is over"


@pytest.mark.parametrize(
    ("thing", "words", "remedy"),
    [
        (unscheduled('persistentvolumeclaim "x" not found'), "", "Create that claim"),
        (pod(waits("CreateContainerConfigError", ROOT_USER)), "", "runAsUser"),
        (pod(waits("CreateContainerConfigError", 'secret "x" not found')), "", "its variables refer"),
        # A child was killed, and the process itself ended well.
        (pod(ended(0, reason="OOMKilled")), "out of memory", "resource_limit"),
        (stopped(LIMIT), LIMIT, "symphony up"),
    ],
)
def test_each_cause_has_its_own_remedy(thing: Body, words: str, remedy: str) -> None:
    last = links(thing)[-1]
    assert words in last.what
    assert remedy in last.remedy


def test_a_process_that_completed_with_its_experiment_needs_no_remedy() -> None:
    last = links(stopped(supervisor.COMPLETED))[-1]
    assert (last.what, last.remedy) == (f"stopped: {supervisor.COMPLETED}", "")


def test_status_of_a_pod_never_created_has_the_answer_to_a_dry_run_of_its_amounts() -> None:
    """A pod of a group has the amounts of all its processes; equal pods are asked for once."""
    asked_for: list[Body] = []

    def answer(asked: Asked) -> Answer:
        if asked.verb != "POST":
            return 200, {"items": []}
        asked_for.append(asked.body)
        amounts = [each["resources"]["requests"].get("cpu") for each in asked.body["spec"]["containers"]]
        message = 'pods "symphony-dry-run-x" is forbidden: exceeded quota: few, requested: requests.cpu=2'
        return (403, {"message": message}) if amounts == ["1", "1"] else (201, {})

    cpu = {"resource_request": {"cpu": 1}}
    with serving(answer) as api:
        recorded = Recorded("o", "rl", {}, not_created={"g/x": cpu, "g/y": cpu, "a": {}, "b": {}})
        connection = {"kubeconfig": api.kubeconfig()}
        (statuses,) = observe.statuses([replace(recorded, connection=connection)])
        assert not isinstance(statuses, Exception)
        refusal = "exceeded quota: few, requested: requests.cpu=2"
        known = [f"not created: {refusal}"] * 2
        assert [status.why for status in statuses] == [*known, *[f"not created: {reasons.UNKNOWN}"] * 2]
        assert len(asked_for) == 2
        link = why.read_chain(api.client(), recorded, "g/y", "rl")[-1]
        assert refusal in link.what
        assert "ask for a higher quota" in link.remedy


def test_a_pod_that_no_state_records_is_shown_as_it_runs() -> None:
    """The connection to the cluster broke off while `up` made it."""
    unrecorded = pod(RUNS)
    unrecorded["metadata"] = {"name": "a", "labels": {labels.POD: "a"}, "annotations": {}}
    unrecorded["spec"]["containers"][0]["name"] = "a"
    with serving(lambda asked: (200, {"items": [unrecorded] if "/pods" in asked.path else []})) as api:
        recorded = Recorded("o", "rl", {}, connection={"kubeconfig": api.kubeconfig()}, not_created={"a": {}})
        (statuses,) = observe.statuses([recorded])
        assert not isinstance(statuses, Exception)
        assert (statuses[0].state, statuses[0].why) == ("running", reasons.UNRECORDED)
        (link,) = why.read_chain(api.client(), recorded, "a", "rl")
        assert reasons.UNRECORDED in link.what


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


def test_why_says_that_the_api_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symphony.backends.kubernetes.api.client.PATIENCE", 0)
    facts = {"pod_name": "a", "container_name": "a", "image": "x"}
    result = why.read_chain(client_to("http://127.0.0.1:1"), Recorded("", "n", {"a": facts}), "a", "n")
    assert [link.step for link in result if link.broken] == ["reached"]
    assert "does not answer" in result[-1].what


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


ENDED_WITH_IT = ended(143)
MOUNT, PULLING = event("FailedMount"), event("Pulling", "00:00:02")
BROKEN_INIT = pod_with_sidecar(
    pod_with_sidecar(pod(waits("PodInitializing"), phase="Failed"), ENDED_WITH_IT),
    ended(128),
    name="clone-x",
    policy="Never",
)


@pytest.mark.parametrize(
    ("thing", "events", "step", "what", "broken"),
    [
        # The state of a sidecar does not affect a running process.
        (pod_with_sidecar(pod(RUNS), RUNS, started=True), [], "ready", "running", False),
        (pod_with_sidecar(pod(RUNS), waits("CrashLoopBackOff")), [], "ready", "running", False),
        (pod_with_sidecar(pod(RUNS), ENDED_WITH_IT), [], "ready", "running", False),
        (pod_with_sidecar(pod(ended(1), phase="Failed"), ENDED_WITH_IT), [], "exit", "exit 1", True),
        # A sidecar prevents the start.
        (
            pod_with_sidecar(pod(waits("PodInitializing")), waits("ImagePullBackOff")),
            [],
            "pulled",
            "no: p:1: ImagePullBackOff",
            True,
        ),
        (
            pod_with_sidecar(pod(waits("PodInitializing")), waits("CreateContainerError", "no")),
            [],
            "prepared",
            "no: proxy: CreateContainerError: no",
            True,
        ),
        (pod_with_sidecar(pod(waits("PodInitializing")), RUNS), [], "prepared", "proxy is running", True),
        (BROKEN_INIT, [], "prepared", "no: clone-x: exit 128", True),
        # An old mount failure is ignored once the image is being pulled.
        (pod(waits("ContainerCreating")), [MOUNT], "prepared", "no: FailedMount: words", True),
        (
            pod(waits("ContainerCreating")),
            [MOUNT, PULLING],
            "pulled",
            "not yet: the image is being pulled",
            True,
        ),
    ],
)
def test_the_last_link_is_the_step_that_counts(
    thing: Body, events: Sequence[Body], step: str, what: str, broken: bool
) -> None:
    *before, last = links(thing, events)
    assert not any(each.broken for each in before)
    assert (last.step, last.what, last.broken) == (step, what, broken)


def test_a_crashing_process_is_blamed_although_a_sidecar_crashes_too() -> None:
    both = pod_with_sidecar(pod(waits("CrashLoopBackOff"), ended(1)), waits("CrashLoopBackOff"))
    assert pod_status.status("a", "a", both).why == "CrashLoopBackOff: exit 1"
    assert pod_status.status("a", "a", BROKEN_INIT).why == "clone-x: exit 128"


@pytest.mark.parametrize(("moment", "is_named"), [("00:00:05", True), ("00:05:00", False)])
def test_why_names_the_liveness_probe_for_which_a_process_was_killed(moment: str, is_named: bool) -> None:
    message = "Liveness probe failed: HTTP probe failed with statuscode: 503"
    failure = event("Unhealthy", moment, message=message)
    assert (message in links(pod(ended(137)), [failure])[-1].what) == is_named
    restarted = pod({"running": {"startedAt": "2026-01-01T00:00:10Z"}}, ended(137), "OnFailure")
    assert (message in links(restarted, [failure])[-1].what) == is_named
