"""`up` interrupted while Pulumi's Kubernetes plugin creates a pod: the report, and the next `up`."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backends.kubernetes.relay import silenced
from tests.backends.kubernetes.test_runs import Live, uids, up
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(400)]


def _recorded_urns(sandbox: Sandbox, stack: str) -> set[str]:
    """Return the URNs in the state of a stack."""
    return {
        each["urn"]
        for each in sandbox.pulumi("stack", "export", "--stack", stack).json["deployment"]["resources"]
    }


def test_up_interrupted_while_creating_a_pod_says_so_and_the_next_up_adopts_the_pod(
    sandbox: Sandbox,
    stack: str,
    cluster: Cluster,
    tmp_path: Path,
    live: Live,
    applied: Callable[[dict[str, Any]], None],
) -> None:
    program = """
with Experiment("e") as e:
    for name in ("quick", "slow"):
        e.new_process(name, command=["sleep", "999"])
"""
    # A webhook that does not answer blocks the creation of one pod; the engine never gets the result.
    with (
        socket.create_server(("127.0.0.1", 0)) as webhook,
        silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence),
    ):
        sandbox.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        hook = {
            "name": "slow.test.example",
            "clientConfig": {"url": f"https://127.0.0.1:{webhook.getsockname()[1]}/"},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"symphony/experiment": stack}},
            "objectSelector": {"matchLabels": {"symphony/pod": "slow"}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 30,
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        applied({**kind, "metadata": {"name": stack}, "webhooks": [hook]})
        sandbox.write(program)
        process = sandbox.start([str(SYMPHONY), "up", stack, "-y"])
        webhook.settimeout(60)
        held, _ = webhook.accept()
        assert process.stdout is not None
        while "quick  started" not in (line := process.stdout.readline()):
            assert line, "`up` ended before it said that quick has started"
        silence.set()
        held.close()
        wait_for(lambda: "slow" in uids(live, stack), 30, "the server made it")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "slow: interrupted while it changed" in out + err
    assert "failed" not in out + err
    sandbox.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})
    assert not any(urn.endswith("Pod::slow") for urn in _recorded_urns(sandbox, stack))
    before = uids(live, stack)
    output = up(sandbox, stack, program, code=0)
    assert "2 of 2 running" in output
    assert uids(live, stack) == before
