"""A server-side dry run of each distinct pod before anything is created; its errors point at a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from symphony import Experiment
from symphony.backends.kubernetes import dry_run, expand
from symphony.backends.kubernetes.api.client import Client, client_of
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan
from symphony.plan.problems import Problem
from tests.backends.kubernetes.scripted_api import Answer, Asked, serving
from tests.backends.kubernetes.test_runs import up
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

Declare = Callable[[Experiment], object]


def dry_run_problems(client: Client, declare: Declare, namespace: str = "rl", **chosen: Any) -> list[Problem]:
    experiment = Experiment("rl")
    declare(experiment)
    settings = Settings(image="busybox", **chosen)
    spec = experiment.spec
    plan = build_plan(spec, expand.offline_limits(spec, settings, namespace))
    manifests = render.render(plan, settings, "x/rl#1")
    return dry_run.check(client, namespace, manifests, spec)


def workers(experiment: Experiment) -> None:
    group = experiment.new_process_group("g")
    for i in range(20):
        experiment.new_process(f"w{i}", command="train", args=[str(i)]).set_env("SEED", str(i))
        group.new_process(f"m{i}")
    experiment.new_process("big").resource_request(cpu=2)


def refusal(status: int, message: str, *causes: tuple[str, str]) -> Answer:
    every = [{"field": field, "message": why} for field, why in causes]
    return status, {"message": message, "reason": "Invalid", "details": {"causes": every}}


def test_pods_that_differ_only_in_names_arguments_and_values_share_one_dry_run() -> None:
    with serving(lambda _: (201, {})) as api:
        assert dry_run_problems(api.client(), workers) == []
        assert len(api.asked) == 3
        assert all("dryRun=All" in path and "fieldValidation=Strict" in path for path in api.paths("POST"))


def test_pods_of_a_missing_namespace_are_dry_run_in_default() -> None:
    def answer(asked: Asked) -> Answer:
        if "/namespaces/rl/" in asked.path:
            return refusal(404, 'namespaces "rl" not found')
        return refusal(403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"')

    with serving(answer) as api:
        assert dry_run_problems(api.client(), lambda e: e.new_process("a")) == []
        assert [path.partition("?")[0].split("/")[4] for path in api.paths("POST")] == ["rl", "default"]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(403, 'pods "x" is forbidden: exceeded quota: few'),
        refusal(403, 'pods is forbidden: User "u" cannot create resource "pods" in API group ""'),
        refusal(400, "admission webhook x does not support dry run"),
    ],
)
def test_dry_run_refusals_unrelated_to_the_pod_are_ignored(answer: Answer) -> None:
    with serving(lambda _: answer) as api:
        assert dry_run_problems(api.client(), lambda e: e.new_process("a")) == []


def lineno(problem: Problem) -> int:
    (place,) = problem.where
    return place.line


def test_a_dry_run_error_points_at_the_line_of_the_setting() -> None:
    def declare(experiment: Experiment) -> None:
        process = experiment.new_process("a")
        process.resource_request(cpu=2)
        process.container_yml["tty"] = "yes"
        process.pod_yml["spec"] = {"priority": "high"}

    container, start = "spec.containers[0]", declare.__code__.co_firstlineno
    expected = {
        f"{container}.resources.requests[cpu]": ("a sets resources.requests[cpu]", 2),
        f"{container}.tty": ("container_yml of a sets tty", 1),
        "spec.priority": ("pod_yml of a sets spec.priority", 1),
    }
    for field, (what, line) in expected.items():
        with serving(lambda _, field=field: refusal(422, "no", (field, "no"))) as api:
            (problem,) = dry_run_problems(api.client(), declare)
            assert (problem.what, lineno(problem) - start) == (f"{what}: no", line)
            assert "kubectl explain pod.spec." in problem.remedy


WRONG: dict[str, tuple[str, Declare]] = {
    "a misspelt field": ('"image"', lambda e: e.new_process("a").container_yml.update(imagee="x")),
    "a wrong type": (
        "list of strings",
        lambda e: e.new_process("a").container_yml.update(command="sleep 5"),
    ),
    "a request above its limit": (
        "resources.requests",
        lambda e: (p := e.new_process("a"), p.resource_request(cpu=2), p.resource_limit(cpu=1)),
    ),
    "a label": ("labels", lambda e: e.new_process("a").add_label("a b", "x")),
    "a toleration": ("tolerations[0]", lambda e: e.new_process("a").add_toleration(effect="NoSchedule")),
    "a volume that there is not": (
        "volumeMounts[0].name",
        lambda e: e.new_process("a").container_yml.update(
            volumeMounts=[{"name": "nowhere", "mountPath": "/x"}]
        ),
    ),
}


@pytest.mark.kubernetes
@pytest.mark.parametrize("case", WRONG)
def test_real_api_server_errors_point_at_the_line_of_the_program(cluster: Cluster, case: str) -> None:
    words, declare = WRONG[case]
    problems = dry_run_problems(client_of(cluster.kubeconfig, ""), declare, "kt-does-not-exist")
    assert problems
    assert words in " ".join(f"{problem.what} {problem.remedy} {problem.where}" for problem in problems)
    assert all(problem.remedy and problem.where[0].line for problem in problems), problems
    assert not any("symphony-dry-run" in problem.what for problem in problems), problems


@pytest.mark.kubernetes
def test_up_reports_what_the_dry_run_finds_and_creates_nothing(
    sandbox: Sandbox, stack: str, kubectl: Callable[..., str]
) -> None:
    program = """
with Experiment("e") as e:
    e.new_process("a", command="true").container_yml["resources"] = {"limits": {"cpu": "lots"}}
    e.new_process("b", command="true").container_yml["imagePullPolicy"] = "sometimes"
"""
    output = up(sandbox, stack, program, code=2)
    for words in ("container_yml of a has a quantity", "container_yml of b sets imagePullPolicy", "line 4"):
        assert words in output
    assert kubectl("get", "namespace", stack, "--ignore-not-found", "-o", "name") == ""


@pytest.mark.kubernetes
def test_the_real_api_server_accepts_a_correct_pod_at_every_level(cluster: Cluster) -> None:
    def declare(experiment: Experiment) -> None:
        workers(experiment)
        process = experiment.new_process("a", image="localhost:5000/a/b-c:v1.2")
        process.add_toleration(operator="Exists")
        process.resource_request(cpu="500m", memory="1Gi")
        process.resource_limit(cpu=1, memory="2G", gpu=1)
        process.add_label("a.test/b", "")
        process.mount_git_repo("https://git.test/x", "main", "/code")

    client = client_of(cluster.kubeconfig, "")
    for level in ("baseline", "restricted", "privileged"):
        assert dry_run_problems(client, declare, "kt-does-not-exist", pod_security=level) == []
