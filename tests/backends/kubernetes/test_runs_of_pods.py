"""Logs are collected before a pod is replaced or deleted; `drift` and `leaks` on a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
PROGRAM = """
with Experiment() as e:
    e.new_process("a", command=["sh", "-c", "echo {word} 1; echo {word} 2; sleep 1000"])
"""


def test_runs_keep_the_logs_of_replaced_and_deleted_pods(sandbox: Sandbox, stack: str) -> None:
    def printed(word: str) -> None:
        wait_for(lambda: f"{word} 2" in sandbox.symphony("logs", stack).out, 30, f"it has printed {word}")

    for word in ("first", "second"):
        sandbox.write(PROGRAM.format(word=word))
        sandbox.symphony("up", stack, "-y")
        printed(word)
    assert sandbox.symphony("logs", stack, "--run", "1").out.splitlines()[:2] == ["first 1", "first 2"]
    assert "second 1" in sandbox.symphony("logs", stack, "--run", "2").out
    assert "2 runs kept" in sandbox.symphony("delete", stack, "-y").out
    last = sandbox.symphony("logs", stack).out
    assert last.splitlines()[:2] == ["second 1", "second 2"]
    assert "first" not in last
    (second, first) = sandbox.symphony("history", stack, "--json").json
    assert first["state"] == "ended by the next run"
    assert second["state"] == "deleted"
    assert second["missing"] == []


def test_drift_lists_changed_objects_and_leaks_list_unrecorded_ones(
    sandbox: Sandbox, stack: str, cluster: Access, kubectl: Callable[..., str]
) -> None:
    sandbox.write(PROGRAM.format(word="x").replace('1000"])', '1000"], binds=["replay"])'))
    sandbox.symphony("up", stack, "-y")
    assert sandbox.symphony("drift", stack, "--json").json == []
    patch = '{"spec": {"ports": [{"name": "replay", "port": 7777, "targetPort": 7777}]}}'
    (service,) = kubectl("-n", stack, "get", "service", "-o", "name").split()
    kubectl("-n", stack, "patch", service, "--type=merge", "-p", patch)
    rows = sandbox.symphony("drift", stack, "--json", code=1).json
    assert {row["field"] for row in rows} >= {"spec.ports[0].port"}
    kubectl("-n", stack, "set", "image", "pod/a", "a=localhost:5000/no/such:1")
    out = sandbox.symphony("drift", stack, code=1).out
    assert f"`symphony restart {stack} a`" in out
    assert f"pulumi refresh -s {stack}`" in out
    sandbox.symphony("restart", stack, "a", "-y")
    sandbox.pulumi("refresh", "-s", stack, "--yes")
    sandbox.symphony("up", stack, "-y")
    assert sandbox.symphony("drift", stack, "--json").json == []
    kubeconfig = {"KUBECONFIG": str(cluster.kubeconfig)}
    assert stack not in sandbox.symphony("leaks", code=None, env=kubeconfig).out
    (state,) = sandbox.home.glob(f"state/.pulumi/stacks/*/{stack}.json")
    aside = state.rename(state.with_name("aside"))
    leaked = sandbox.symphony("leaks", code=1, env=kubeconfig).out
    assert f"delete namespace {stack}" in leaked
    aside.rename(state)
    sandbox.symphony("delete", stack, "-y")
