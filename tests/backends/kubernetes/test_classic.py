"""A classic program on the real cluster: the backend is chosen by its `KubeCluster` alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.backends.kubernetes.test_runs import Live
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
PROGRAM = """
from symphony.engine import Cluster
cluster = Cluster.new("kube", kubeconfig={kubeconfig!r}, image={image!r}, pod_security="baseline", patience=5)
print("declared")
exp = cluster.new_experiment("classic")
exp.new_process("Server", cmds=["echo I am $SYMPHONY_ROLE", "sleep 999"]).binds("params")
group = exp.new_process_group("agents")
agent = group.new_process("agent_0", command="sh", args=["-c", "echo $SYMPH_PARAMS_ADDR; sleep 999"])
agent.connects("params")
group.restart_policy("Always")
cluster.launch(exp)
"""


def test_a_classic_program_with_kube_cluster_from_plan_to_delete(
    sandbox: Sandbox, cluster: Cluster, live: Live, kubectl: Callable[..., str]
) -> None:
    stack = f"kt-{uuid.uuid4().hex[:8]}"
    sandbox.write(PROGRAM.format(kubeconfig=cluster.kubeconfig, image=cluster.shell_image))
    try:
        planned = sandbox.symphony("plan", stack, timeout=120).out
        assert f"{stack} on kubernetes" in planned
        # The program runs twice, without and with Pulumi's plugins; its output is shown once.
        assert planned.count("declared") == 1
        assert live("pods", stack) == []
        assert "2 of 2 running" in sandbox.symphony("up", stack, "-y", timeout=120).out
        assert {each["metadata"]["name"] for each in live("pods", stack)} == {"server", "agents"}
        assert f"{stack}  " in sandbox.symphony("ls", "kt-").out
        assert set(sandbox.processes(stack)) == {"server", "agents/agent-0"}
        assert sandbox.symphony("logs", stack, "Server").out == "I am server\n"
        assert sandbox.symphony("logs", stack, "agent_0").out.startswith(f"params.{stack}.svc:")
        assert sandbox.symphony("x", stack, "agents/agent_0", "--", "sh", "-c", "exit 3", code=3).out == ""
        assert "Nothing changes" in sandbox.symphony("plan", stack, timeout=120).out
        sandbox.symphony("d", stack, "-f", timeout=120)
        assert live("pods", stack) == []
        assert stack not in sandbox.symphony("ls").out
    finally:
        kubectl("delete", "namespace", stack, "--ignore-not-found", "--wait=false")
