"""Namespaces that hang in Terminating, or hold objects of other users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.backends.kubernetes.status.test_troubles import SLEEPER, lines, place
from tests.backends.kubernetes.test_runs import Live, becomes, uids, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

__all__ = ["place"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Kubectl = Callable[..., str]


@pytest.mark.slow
def test_up_names_the_finalizer_that_blocks_a_namespace_and_recreates_everything_afterwards(
    sandbox: Sandbox, stack: str, kubectl: Kubectl, live: Live
) -> None:
    program = 'with Experiment("e") as e: e.new_process("a", command="sleep", args=["999"]).binds("alpha")'
    up(sandbox, stack, program, code=0)
    finalizer = '{"metadata": {"finalizers": ["test.example/held"]}}'
    kubectl("-n", stack, "create", "configmap", "held")
    kubectl("-n", stack, "patch", "configmap", "held", "--type=merge", "-p", finalizer)
    kubectl("delete", "namespace", stack, "--wait=false")
    try:
        wait_for(lambda: "held in 1" in up(sandbox, stack, program, code=2), 60, "its reason", pause=1)
        (problem,) = [line for line in up(sandbox, stack, program, code=2).splitlines() if "still" in line]
        assert f"{stack} is still being deleted" in problem
    finally:
        kubectl(
            "-n",
            stack,
            "patch",
            "configmap",
            "held",
            "--type=merge",
            "-p",
            '{"metadata": {"finalizers": []}}',
        )
    kubectl("wait", "--for=delete", f"namespace/{stack}", "--timeout=60s")
    up(sandbox, stack, program, code=0)
    assert becomes(sandbox, stack, "a", "running")
    assert [each["metadata"]["name"] for each in live("services", stack)] == ["alpha"]
    sandbox.symphony("delete", stack, "-y")
    assert live("pods", stack) == []


@pytest.mark.slow  # The engine waits two minutes; and meanwhile no namespace of the cluster goes.
def test_delete_names_an_unserved_api_that_blocks_a_namespace(
    sandbox: Sandbox, stack: str, applied: Callable[[dict[str, Any]], None], kubectl: Kubectl
) -> None:
    up(sandbox, stack, SLEEPER, code=0)
    spec = {
        "group": f"{stack}.test.example",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": "nobody"},
        "insecureSkipTLSVerify": True,
    }
    name = f"v1.{stack}.test.example"
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    applied({**kind, "metadata": {"name": name}, "spec": spec})
    kubectl("wait", "--for=condition=Available=false", f"apiservice/{name}", "--timeout=30s")
    try:
        ran = sandbox.symphony("delete", stack, "-y", code=1, timeout=200)
    finally:
        kubectl("delete", "apiservice", name)
    assert stack in ran.err
    assert f"{name.removeprefix('v1.')}/v1" in ran.err, ran.err
    sandbox.symphony("delete", stack, "-y", timeout=120)


def test_up_does_not_take_over_a_foreign_pod(
    sandbox: Sandbox, stack: str, place: str, cluster: Cluster, kubectl: Kubectl, live: Live
) -> None:
    kubectl(
        "-n", place, "run", f"{stack}-a", f"--image={cluster.shell_image}", "--command", "--", "sleep", "99"
    )
    before = uids(live, place)
    sandbox.config(stack, namespace=place, createNamespace="false")
    (line,) = lines(up(sandbox, stack, SLEEPER, code=2))
    assert f"the pod {stack}-a in namespace {place} belongs to another user or program" in line
    sandbox.symphony("delete", stack, "-y", code=None)
    assert uids(live, place) == before
