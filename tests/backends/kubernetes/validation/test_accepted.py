"""What the plan accepts, the real API server accepts: generated experiments, judged by it and not made."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings

from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.api.client import Client, Refused, client_of, path_of
from symphony.backends.kubernetes.manifests import controllers, render
from symphony.backends.kubernetes.settings import Settings
from symphony.backends.kubernetes.validation import manifests as merged
from symphony.plan.build import build_plan, problems
from symphony.plan.checked_spec import checked
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSpec
from symphony.spec.services import ServiceUse
from tests.backends.kubernetes.generated import (
    CHOSEN,
    CONTAINER_YML,
    OUTSIDE,
    POD_YML,
    PULL_SECRETS,
    experiments,
)
from toolchain.kubernetes.fixtures import Access

pytestmark = pytest.mark.kubernetes
SETTINGS = Settings(image="localhost:5000/symphony/busybox:1")
# Not made, and no field is overlooked: without a word the server would drop what it does not know.
JUDGED = {"dryRun": "All", "fieldValidation": "Strict"}
FILES = {"/etc/hostname": b"x", "train.yaml": b"lr: 1", "a/table": b"\xff"}
ALL_CHECKS: list[HealthCheck] = [*HealthCheck.__members__.values()]
_QUICK = settings(max_examples=60, deadline=None, suppress_health_check=ALL_CHECKS, derandomize=True)
# Of what is generated the plan refuses most: at each of the three levels so many are judged by the server.
_JUDGED = 700
_SLOW = settings(max_examples=10_000, deadline=None, suppress_health_check=ALL_CHECKS)


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


def judged(place: tuple[Client, str, Settings], spec: ExperimentSpec, chosen: dict[str, Any]) -> bool:
    """Whether it was planned; what was is accepted."""
    client, namespace, level = place
    config = dataclasses.replace(level, **chosen)
    where = target.target(checked(spec), config, namespace, secrets=dict.fromkeys(FILES, 10))
    if result := problems(checked(spec), where):
        assert all(problem.remedy for problem in result)
        return False
    plan = build_plan(checked(spec), where)
    manifests = render.render(plan, config, "test/x#1", files=FILES)
    assert merged.check(manifests, spec) == []
    for manifest in manifests.all():
        namespaced = manifest["kind"] != "Namespace"
        path = path_of(f"{manifest['kind'].lower()}s", namespace) if namespaced else ""
        if manifest["kind"] in controllers.TYPES:
            path = controllers.path_of(manifest["kind"], namespace)
        if namespaced:
            client.request("POST", path, JUDGED, manifest)
    return True


@given(experiments(), CHOSEN)
@_QUICK
def test_what_is_planned_is_accepted(
    place: tuple[Client, str, Settings], spec: ExperimentSpec, chosen: dict[str, Any]
) -> None:
    event("planned" if judged(place, spec, chosen) else "refused by the plan")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_is_planned_is_accepted_at_length(place: tuple[Client, str, Settings]) -> None:
    count = 0

    @given(experiments(), CHOSEN)
    @_SLOW
    def judge(spec: ExperimentSpec, chosen: dict[str, Any]) -> None:
        nonlocal count
        if count < _JUDGED:
            count += judged(place, spec, chosen)

    judge()
    assert count == _JUDGED, "too much of what is generated is refused by the plan"


def with_pod(**spec: Any) -> dict[str, Any]:
    """A process with such a pod_yml."""
    return {"pod": PodSettings(pod_yml={"spec": spec})}


def with_labels(message: dict[str, str]) -> dict[str, Any]:
    """A process with such labels in its pod_yml."""
    return {"pod": PodSettings(pod_yml={"metadata": {"labels": message}})}


def with_container(**fields: Any) -> dict[str, Any]:
    """A process with such a container_yml."""
    return {"container_yml": fields}


REFUSED: dict[str, dict[str, Any]] = {
    'limits "cpu" of "lots"': with_container(resources={"limits": {"cpu": "lots"}}),
    'requests "memory" of "-1Gi"': with_container(resources={"requests": {"memory": "-1Gi"}}),
    'mounts twice at "/x"': with_pod(
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
        containers=[
            {"name": "a", "volumeMounts": [{"name": v, "mountPath": "/x", "subPath": v} for v in "vw"]}
        ],
    ),
    'mounts the volume "nowhere"': with_container(volumeMounts=[{"name": "nowhere", "mountPath": "/x"}]),
    'a container called "Bad Name"': with_pod(containers=[{"name": "Bad Name", "image": "i"}]),
    'a container "side" without an image': with_pod(containers=[{"name": "side"}]),
    'two containers called "a"': with_pod(initContainers=[{"name": "a", "image": "i"}]),
    'the key "bad key!"': with_labels({"bad key!": "x"}),
    'with the value "bad value!"': with_labels({"k": "bad value!"}),
    'restartPolicy to "always"': with_pod(restartPolicy="always"),
    'imagePullPolicy to "always"': with_container(imagePullPolicy="always"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_pod_yml_and_container_yml_make_of_it_is_refused_here_as_there(
    place: tuple[Client, str, Settings], what: str
) -> None:
    client, namespace, settings = place
    spec = ExperimentSpec("x", processes=(ProcessSpec("a", command=("true",), **REFUSED[what]),))
    plan = build_plan(checked(spec), target.target(checked(spec), settings, namespace))
    manifests = render.render(plan, settings, "test/x#1")
    result = merged.check(manifests, spec)
    assert any(what in problem.what for problem in result), result
    assert all(problem.remedy for problem in result)
    _, manifest = manifests.pods["a"]
    with pytest.raises(Refused):
        client.request("POST", path_of("pods", namespace), JUDGED, manifest)


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_every_way_outside_and_every_field_of_the_users_own_is_planned_and_accepted(
    place: tuple[Client, str, Settings], controller: str
) -> None:
    """Each alone: among the generated experiments few have them, and of those few are planned."""

    def declaring(container: dict[str, Any] | None = None, **pod_yml: Any) -> ExperimentSpec:
        pod, more = PodSettings(pod_yml=pod_yml), container or {}
        web = ProcessSpec("web", exposes=(ServiceUse("page", 8080),), container_yml=more, pod=pod)
        group = ProcessGroupSpec("g", (ProcessSpec("x", container_yml=more),), pod=pod)
        return ExperimentSpec("x", processes=(web,), groups=(group,))

    every = [
        *(
            (declaring(), {**outside, "pull_secrets": secrets})
            for outside in OUTSIDE
            for secrets in PULL_SECRETS
        ),
        *((declaring(each), {}) for each in CONTAINER_YML),
        *((declaring(**each), {}) for each in POD_YML),
    ]
    assert all(judged(place, spec, {**chosen, "controller": controller}) for spec, chosen in every)


def test_more_than_etcd_takes_is_refused() -> None:
    """A rehearsal does not go as far as etcd."""
    env = [{"name": f"V{i}", "value": "x" * 1000} for i in range(1500)]
    used = tuple(ServiceUse(f"{'s' * 50}-{i}") for i in range(6000))
    large = ProcessSpec("large", container_yml={"env": env})
    spec = ExperimentSpec("x", processes=(large, ProcessSpec("server", binds=used)))
    plan = build_plan(checked(spec), target.target(checked(spec), SETTINGS, "rl"))
    result = [problem.what for problem in merged.check(render.render(plan, SETTINGS, "test/x#1"), spec)]
    assert any("large has a manifest of" in what for what in result), result
    assert any("of a ConfigMap" in what for what in result), result


def test_a_namespace_is_accepted(cluster: Access) -> None:
    client = client_of(cluster.kubeconfig, "")
    spec = ExperimentSpec("x", processes=(ProcessSpec("a"),))
    plan = build_plan(checked(spec), target.target(checked(spec), SETTINGS, "rl-x"))
    for level in ("baseline", "restricted", "privileged"):
        namespace = render.namespace(plan, Settings(pod_security=level), "test/x#1")
        client.request("POST", path_of("namespaces"), JUDGED, namespace)


def test_the_judge_refuses_what_the_plan_should_have(place: tuple[Client, str, Settings]) -> None:
    """Were the server to accept everything, the tests above would show nothing."""
    client, namespace, _ = place
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x"}]},
    }
    with pytest.raises(Refused, match="image"):
        client.request("POST", path_of("pods", namespace), JUDGED, pod)


def test_the_judge_refuses_a_field_that_it_does_not_know(place: tuple[Client, str, Settings]) -> None:
    client, namespace, settings = place
    spec = ExperimentSpec("x", processes=(ProcessSpec("a"),))
    plan = build_plan(checked(spec), target.target(checked(spec), settings, namespace))
    _, pod = render.render(plan, settings, "test/x#1").pods["a"]
    client.request("POST", path_of("pods", namespace), JUDGED, pod)
    pod["spec"]["imagePullSecret"] = []
    with pytest.raises(Refused, match="imagePullSecret"):
        client.request("POST", path_of("pods", namespace), JUDGED, pod)
