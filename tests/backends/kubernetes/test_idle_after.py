"""`idle_after` on pods; the test serves the metrics API, with what kubelet measures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.backends.kubernetes.test_runs import becomes, up
from tests.sandbox import Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]
Kubectl = Callable[..., str]
Applied = Callable[[dict[str, Any]], None]
PROGRAM = """
BUSY = "trap 'echo told; exit' TERM; until [ -e /tmp/quiet ]; do :; done; echo quiet; sleep 999 & wait"
with Experiment(idle_after="20s") as e:
    e.new_process("a", command=["sh", "-c", BUSY])
    e.new_process("b", command=["sleep", "999"])
"""
GROUP, KIND = "metrics.k8s.io", "PodMetrics"
METRICS_API = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"pods.{GROUP}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "podmetrics", "kind": KIND},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
_CPU = re.compile(
    r'container_cpu_usage_seconds_total\{container="([^"]+)",namespace="([^"]+)",pod="([^"]+)"\} (\S+)'
)


def measured(kubectl: Kubectl, namespace: str) -> dict[tuple[str, str], float]:
    """Return the CPU seconds of the containers of a namespace by pod and container, from kubelet."""
    pods = json.loads(kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    texts = [kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/resource") for node in nodes]
    rows = _CPU.findall("\n".join(texts))
    return {(pod, container): float(seconds) for container, where, pod, seconds in rows if where == namespace}


def publish(kubectl: Kubectl, namespace: str, before: dict[tuple[str, str], float], seconds: float) -> None:
    """Publish the CPU use of the containers of a namespace since an earlier measurement."""
    for (pod, container), used in measured(kubectl, namespace).items():
        cores = (used - before.get((pod, container), used)) / seconds
        manifest = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": KIND,
            "metadata": {"name": pod, "namespace": namespace},
            "containers": [{"name": container, "usage": {"cpu": f"{cores * 1e9:.0f}n", "memory": "1Mi"}}],
        }
        kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


@pytest.mark.thorough
def test_idle_after_stops_all_pods_once_none_prints_or_computes(
    sandbox: Sandbox, stack: str, cluster: Cluster, kubectl: Kubectl, applied: Applied
) -> None:
    sandbox.config(stack, supervisorImage=cluster.python_image)
    refused = up(sandbox, stack, PROGRAM, code=2)
    assert "metrics API" in refused
    assert "line 4" in refused, "that of Experiment(...), after the line that the sandbox adds"
    applied(METRICS_API)
    kubectl("wait", "--for=condition=Established", f"crd/pods.{GROUP}", "--timeout=30s")
    up(sandbox, stack, PROGRAM, code=0)
    assert becomes(sandbox, stack, "a", "running")

    def watched(seconds: float, *, until: Callable[[], bool] = lambda: False) -> bool:
        end, before, at = time.monotonic() + seconds, measured(kubectl, stack), time.monotonic()
        while time.monotonic() < end and not until():
            time.sleep(3)
            publish(kubectl, stack, before, time.monotonic() - at)
            before, at = measured(kubectl, stack), time.monotonic()
        return until()

    def is_stopped() -> bool:
        rows = sandbox.symphony("process", stack, "--json").json
        return {row["state"] for row in rows} == {"stopped"}

    assert not watched(45, until=is_stopped), "a computes, though it prints nothing"
    sandbox.symphony("exec", stack, "a", "--", "touch", "/tmp/quiet")
    assert watched(120, until=is_stopped)
    (a, _) = sandbox.symphony("process", stack, "--json").json
    assert "idle_after" in a["why"]
    assert sandbox.symphony("logs", stack, "a").out.split()[:2] == ["quiet", "told"]
    # The next `up` starts the pods again: the old figures would count for the new ones of the same name.
    kubectl("-n", stack, "delete", "pods.metrics.k8s.io", "--all")
    up(sandbox, stack, PROGRAM, code=0)
    wait_for(lambda: becomes(sandbox, stack, "a", "running"), 60, "a runs again")


@pytest.mark.thorough
def test_up_tells_that_the_supervisor_that_ends_an_experiment_does_not_run(
    sandbox: Sandbox, stack: str
) -> None:
    sandbox.config(stack, supervisorImage="localhost:1/none")
    limited = PROGRAM.replace("idle_after", "stop_after")
    assert "the supervisor symphony-supervisor" in up(sandbox, stack, limited, code=0)
    assert "symphony:supervisorImage" in sandbox.symphony("why", stack, "a").out
