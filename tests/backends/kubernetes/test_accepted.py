"""What the plan accepts, the real API server accepts: generated experiments, judged by it and not made."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, event, given, settings

from symphony.backends.kubernetes import controllers, render, target
from symphony.backends.kubernetes.client import Client, Refused, client_of, path_of
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan, problems
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.process import ProcessSpec
from tests.backends.kubernetes.generated import CONTROLLER, experiments
from toolchain.kubernetes.fixtures import Access

pytestmark = pytest.mark.kubernetes
SETTINGS = Settings(image="localhost:5000/symphony/busybox:1", pull_secrets=("mine",))
FILES = {"/etc/hostname": b"x", "train.yaml": b"lr: 1", "a/table": b"\xff"}
_QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
_SLOW = settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=["privileged", "baseline", "restricted"])
def place(
    request: pytest.FixtureRequest, cluster: Access, kubectl: Callable[..., str]
) -> Iterator[tuple[Client, str, Settings]]:
    name = f"kt-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    level = request.param
    kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
    # The quota and the token controllers fill a new namespace in a moment of their own.
    kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    yield client_of(cluster.kubeconfig, ""), name, Settings(image=SETTINGS.image, pod_security=level)
    kubectl("delete", "namespace", name, "--wait=false")


def judged(place: tuple[Client, str, Settings], spec: ExperimentSpec, controller: str) -> None:
    client, namespace, level = place
    chosen = dataclasses.replace(level, controller=controller)
    where = target.target(spec, chosen, namespace, secrets=dict.fromkeys(FILES, 10))
    if found := problems(spec, where):
        event("refused by the plan")
        assert all(problem.remedy for problem in found)
        return
    plan = build_plan(spec, where)
    event("planned")
    manifests = render.render(plan, chosen, "test/x#1", files=FILES)
    for manifest in manifests.all():
        namespaced = manifest["kind"] != "Namespace"
        path = path_of(f"{manifest['kind'].lower()}s", namespace) if namespaced else ""
        if manifest["kind"] in controllers.TYPES:
            path = controllers.path_of(manifest["kind"], namespace)
        if namespaced:
            client.request("POST", path, {"dryRun": "All"}, manifest)


@given(experiments(), CONTROLLER)
@_QUICK
def test_what_is_planned_is_accepted(
    place: tuple[Client, str, Settings], spec: ExperimentSpec, controller: str
) -> None:
    judged(place, spec, controller)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(experiments(), CONTROLLER)
@_SLOW
def test_what_is_planned_is_accepted_at_length(
    place: tuple[Client, str, Settings], spec: ExperimentSpec, controller: str
) -> None:
    judged(place, spec, controller)


def test_a_namespace_is_accepted(cluster: Access) -> None:
    client = client_of(cluster.kubeconfig, "")
    spec = ExperimentSpec("x", processes=(ProcessSpec("a"),))
    plan = build_plan(spec, target.target(spec, SETTINGS, "rl-x"))
    for level in ("baseline", "restricted", "privileged"):
        namespace = render.namespace(plan, Settings(pod_security=level), "test/x#1")
        client.request("POST", path_of("namespaces"), {"dryRun": "All"}, namespace)


def test_the_judge_refuses_what_the_plan_should_have(place: tuple[Client, str, Settings]) -> None:
    """Were the server to accept everything, the tests above would show nothing."""
    client, namespace, _ = place
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x"}]},
    }
    with pytest.raises(Refused):
        client.request("POST", path_of("pods", namespace), {"dryRun": "All"}, pod)
