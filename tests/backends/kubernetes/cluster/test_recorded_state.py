"""`observe.recorded` reads the state of a stack: its cluster, and which containers are processes."""

from __future__ import annotations

from typing import Any

import pytest

from symphony import Experiment
from symphony.backends.kubernetes import observe
from symphony.backends.kubernetes.manifests import labels, workloads
from symphony.engine.state.file_store import Resource
from tests.backends.kubernetes.manifests.test_render import OWNER, manifests

STACK = "urn:pulumi:rl::symphony::"
EXPERIMENT = f"{STACK}symphony:index:Experiment"
PROVIDER = "pulumi:providers:kubernetes"


def resource(urn: str, type_: str, inputs: dict[str, Any]) -> Resource:
    return Resource(urn, type_, "", "", inputs, inputs, "")


def provider(parent: str, name: str, **inputs: str) -> Resource:
    return resource(f"{parent}{PROVIDER}::{name}", PROVIDER, inputs)


OURS = provider(f"{EXPERIMENT}$", "kubernetes", clusterIdentifier="ours", context="c", kubeconfig="/k")
NAMESPACE = resource(
    f"{EXPERIMENT}$kubernetes:core/v1:Namespace::rl",
    "kubernetes:core/v1:Namespace",
    {"metadata": {"name": "rl", "uid": "1", "labels": {labels.MANAGED_BY: labels.SYMPHONY}}},
)


@pytest.mark.parametrize(
    "theirs",
    [
        provider(STACK, "kubernetes", context="d"),
        provider(STACK, "other", clusterIdentifier="theirs"),
        provider(f"{EXPERIMENT}$", "other", clusterIdentifier="theirs"),
    ],
    ids=["of our name", "of another name", "below the experiment"],
)
def test_other_providers_of_the_program_do_not_change_the_recorded_cluster(theirs: Resource) -> None:
    for resources in ([OURS, NAMESPACE, theirs], [theirs, OURS, NAMESPACE]):
        result = observe.recorded(OWNER, resources)
        assert result is not None
        connection = {"clusterIdentifier": "ours", "context": "c", "kubeconfig": "/k", "namespace": "1"}
        assert result.connection == connection


def test_declared_processes_that_were_never_created_are_recorded() -> None:
    process = Resource("urn::g/b", "symphony:index:Process", "", "", {"declared": {"name": "b"}}, {}, "")
    result = observe.recorded(OWNER, [OURS, NAMESPACE, process])
    assert result is not None
    assert result.not_created == {"g/b": {"name": "b"}}


def experiment(sidecar: bool = True) -> Experiment:
    made = Experiment("rl")
    more = {"containers": [{"name": "proxy", "image": "p"}]} if sidecar else {}
    made.new_process("a").pod_yml["spec"] = more
    group = made.new_process_group("g")
    group.pod_yml["spec"] = more
    for name in ("x", "y"):
        group.new_process(name)
    return made


def state_of(manifest: dict[str, Any]) -> Resource:
    return resource("urn:pod", workloads.TYPES[manifest["kind"]], manifest)


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_a_sidecar_added_by_the_user_is_not_a_process(controller: str) -> None:
    rendered = manifests(experiment(), controller=controller).pods.values()
    result = observe.recorded(OWNER, [state_of(manifest) for _, manifest in rendered])
    assert result is not None
    of_pods = {group or "a": workloads.fingerprint(manifest) for group, manifest in rendered}
    expected = {"a": of_pods["a"], "g/x": of_pods["g"], "g/y": of_pods["g"]}
    assert {path: facts["fingerprint"] for path, facts in result.processes.items()} == expected


@pytest.mark.parametrize("controller", ["Pod", "Job"])
def test_only_a_pod_with_sidecars_is_annotated_with_its_processes(controller: str) -> None:
    _, plain = manifests(experiment(sidecar=False), controller=controller).pods["g"]
    _, noted = manifests(experiment(), controller=controller).pods["g"]
    assert labels.PROCESSES not in str(plain)
    assert labels.annotation(noted, labels.PROCESSES) == "x,y"
    assert labels.PROCESSES not in str(noted["spec"]), "a Job whose template changes is replaced"
