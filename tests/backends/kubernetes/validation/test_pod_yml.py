"""pod_yml and container_yml of users are checked before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from symphony import Experiment
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.manifests import labels, render, workloads
from symphony.backends.kubernetes.manifests.pod import merge
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan
from symphony.plan.problems import Problem
from tests.plans import problems


def experiment(pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None) -> Experiment:
    made = Experiment("rl")
    process = made.new_process("a", command="true")
    process.mount_empty_dir("v", False, "/v")
    process.mount_git_repo("https://git.test/x", "main", "/code")
    process.pod_yml.update(pod or {})
    process.container_yml.update(container or {})
    return made


def problems_of(made: Experiment, **settings: Any) -> tuple[Problem, ...]:
    return problems(made.spec, expand.offline_limits(made.spec, Settings(image="i", **settings), "rl"))


def messages(
    pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **settings: Any
) -> list[str]:
    result = problems_of(experiment(pod, container), **settings)
    assert all(problem.remedy and problem.where for problem in result)
    return [problem.what for problem in result]


def pod(
    pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    made, chosen = experiment(pod, container), Settings(image="i", **settings)
    plan = build_plan(made.spec, expand.offline_limits(made.spec, chosen, "rl"))
    return render.render(plan, chosen, "x/rl#1").pods["a"][1]


POD: list[tuple[str, dict[str, Any]]] = [
    ("metadata", {"metadata": None}),
    ("metadata.labels", {"metadata": {"labels": []}}),
    ("metadata.labels", {"metadata": {"labels": {"a": 1}}}),
    ("has an empty spec.containers", {"spec": {"containers": None}}),
    ("has an empty spec.containers", {"spec": {"containers": []}}),
    ("spec.containers", {"spec": {"containers": "a"}}),
    ("spec.containers", {"spec": {"containers": [{"image": "i"}]}}),
    ("spec.containers[0].env", {"spec": {"containers": [{"name": "a", "env": [{"value": "x"}]}]}}),
    ("specs", {"specs": {}}),
    # Fields by which symphony identifies its pods.
    ("sets metadata.labels", {"metadata": {"labels": {"symphony/pod": "b"}}}),
    ("sets metadata.labels", {"metadata": {"labels": {labels.MANAGED_BY: "helm"}}}),
    ("sets metadata.labels", {"metadata": {"labels": {labels.MANAGED_BY: None}}}),
    ("sets metadata.annotations", {"metadata": {"annotations": {"symphony/owner": "x"}}}),
    ("sets metadata.annotations", {"metadata": {"annotations": {"pulumi.com/waitFor": None}}}),
    # Pod security.
    ("asks for automountServiceAccountToken", {"spec": {"automountServiceAccountToken": True}}),
    (
        "asks for seccompProfile Unconfined",
        {"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
    ),
    (
        "asks for serviceAccountToken",
        {
            "spec": {
                "volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
            }
        },
    ),
]
CONTAINER: list[tuple[str, dict[str, Any]]] = [
    ("env", {"env": [{"value": "x"}]}),
    ("env", {"env": {"A": "x"}}),
    ("mountPath", {"volumeMounts": [{"name": "v"}]}),
    ("asks for capability SYS_ADMIN", {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    ("asks for allowPrivilegeEscalation", {"securityContext": {"allowPrivilegeEscalation": True}}),
    (
        "asks for seccompProfile Unconfined",
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    ),
]


@pytest.mark.parametrize(("words", "content"), POD)
def test_each_invalid_pod_yml_is_one_problem(words: str, content: dict[str, Any]) -> None:
    (what,) = messages(pod=content)
    assert what.startswith("pod_yml of a ")
    assert words in what


@pytest.mark.parametrize(("words", "content"), CONTAINER)
def test_each_invalid_container_yml_is_one_problem(words: str, content: dict[str, Any]) -> None:
    (what,) = messages(container=content)
    assert what.startswith("container_yml of a ")
    assert words in what


def test_capital_letters_in_an_image_are_allowed_only_in_host_and_tag() -> None:
    made = Experiment("rl")
    made.new_process("a", image="Foo:1")
    (problem,) = problems_of(made)
    assert "lower-case letters" in problem.remedy
    made = Experiment("rl")
    for i, image in enumerate(("foo", "foo:V1", "localhost:5000/foo", "Registry.test/foo/bar", "a/b")):
        made.new_process(f"p{i}", image=image)
    assert not problems_of(made)


@pytest.mark.parametrize(
    ("pod", "container"),
    [(content, None) for words, content in POD if "asks for" in words]
    + [(None, content) for words, content in CONTAINER if "asks for" in words],
)
def test_dangerous_fields_are_allowed_at_the_privileged_level(pod: Any, container: Any) -> None:
    assert messages(pod, container, pod_security="privileged") == []


def test_null_in_pod_yml_does_not_remove_a_security_setting() -> None:
    side = {"name": "side", "image": "s", "securityContext": {"allowPrivilegeEscalation": None}}
    nothing = {
        "automountServiceAccountToken": None,
        "securityContext": None,
        "containers": [side, {"name": "a", "securityContext": None}],
        "initContainers": [{"name": "first", "image": "s"}],
    }
    spec = pod({"spec": nothing})["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    every = [*spec["containers"], *spec["initContainers"]]
    assert [each["name"] for each in every][:2] == ["a", "side"]
    assert all(each["securityContext"]["allowPrivilegeEscalation"] is False for each in every)


def test_a_privileged_container_gets_no_allow_privilege_escalation_false() -> None:
    made = pod(container={"securityContext": {"privileged": True}}, pod_security="privileged")
    assert made["spec"]["containers"][0]["securityContext"] == {"privileged": True}


def test_the_git_clone_runs_as_non_root_at_the_restricted_level() -> None:
    (clone,) = pod(pod_security="restricted")["spec"]["initContainers"]
    assert clone["securityContext"]["runAsUser"] == 65534
    (clone,) = pod()["spec"]["initContainers"]
    assert "runAsUser" not in clone["securityContext"]
    own = {"spec": {"securityContext": {"runAsUser": 1000}}}
    (clone,) = pod(own, pod_security="restricted")["spec"]["initContainers"]
    assert "runAsUser" not in clone["securityContext"]


def test_volume_mounts_are_merged_by_mount_path() -> None:
    two = [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]
    assert merge(two, [{"name": "w", "mountPath": "/b"}, {"name": "v", "mountPath": "/c"}]) == [
        {"name": "v", "mountPath": "/a"},
        {"name": "w", "mountPath": "/b"},
        {"name": "v", "mountPath": "/c"},
    ]


WORDS = st.sampled_from(
    [
        *(
            "metadata",
            "labels",
            "annotations",
            "spec",
            "containers",
            "initContainers",
            "volumes",
            "env",
            "name",
        ),
        *("a", "value", "volumeMounts", "mountPath", "securityContext", "seccompProfile", "capabilities"),
        *("add", "privileged", "image", "command", "args", "resources", "nodeSelector", "restartPolicy"),
    ]
)
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 1), st.sampled_from(["", "a", "x"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=12,
)
SPEC = st.dictionaries(WORDS, JUNK, max_size=3)
ENTRIES = st.lists(
    st.dictionaries(WORDS, JUNK, max_size=2).map(lambda each: {"name": "a", **each}), max_size=2
)
PODS = st.one_of(
    st.dictionaries(WORDS, JUNK, max_size=3),
    st.fixed_dictionaries({"spec": SPEC}),
    st.fixed_dictionaries({"metadata": SPEC, "spec": SPEC}),
    st.fixed_dictionaries({"spec": st.fixed_dictionaries({"containers": ENTRIES})}),
)


@example({"spec": {"initContainers": None}}, {}, "Pod", False)
@given(PODS, st.dictionaries(WORDS, JUNK, max_size=3), st.sampled_from(["Pod", "Job"]), st.booleans())
def test_any_pod_yml_either_is_a_problem_or_renders_a_safe_manifest(
    pod: dict[str, Any], container: dict[str, Any], controller: str, privileged: bool
) -> None:
    chosen = Settings(
        image="i", controller=controller, pod_security="privileged" if privileged else "baseline"
    )
    made = experiment(pod, container)
    where = expand.offline_limits(made.spec, chosen, "rl")
    if result := problems(made.spec, where):
        assert all(problem.remedy for problem in result)
        return
    manifest = render.render(build_plan(made.spec, where), chosen, "x/rl#1").pods["a"][1]
    assert "a" in workloads.processes_of(manifest)
    assert labels.belongs_to(manifest, "x/rl#1")
    spec = workloads.pod_in(manifest)["spec"]
    if not privileged:
        assert spec["automountServiceAccountToken"] is False
        assert "hostPath" not in str(spec)
        every = [*spec["containers"], *spec.get("initContainers", [])]
        assert all(each["securityContext"]["allowPrivilegeEscalation"] is False for each in every)
