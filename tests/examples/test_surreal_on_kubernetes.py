"""examples/surreal as pods: learning although an agent's pod is deleted and the learner is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.examples.test_on_kubernetes import kubectl
from tests.sandbox import ROOT, Sandbox, clone_in, sandbox_in, wait_for
from toolchain.kubernetes import docker_build
from toolchain.kubernetes.fixtures import Access, cluster
from toolchain.plugins import install

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(500)]
STACK = "surreal.pods"
TARGET = 195


@pytest.mark.slow
def test_surreal_learns_on_pods_although_some_are_lost(
    cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stack of the repository with its Image, based on this machine's packages."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")
    namespace = f"surreal-{uuid.uuid4().hex[:6]}"
    clone = clone_in(tmp_path)
    shutil.copytree(ROOT / "requirements", clone / "requirements")
    file = Path("stacks") / f"Pulumi.{STACK}.yaml"
    config: dict[str, Any] = yaml.safe_load((ROOT / file).read_text())["config"]
    config["surreal:image"] |= {
        "repository": f"{cluster.registry}/symphony/surreal",
        "build_args": {"BASE": docker_build.surreal_packages(cluster.docker_host)},
    }
    config["surreal:settings"] |= {"target": TARGET, "checkpoint_every": 1}
    config |= {
        "symphony:namespace": namespace,
        "symphony:podSecurity": "restricted",
        "kubernetes:kubeconfig": cluster.kubeconfig,
    }
    (clone / file).write_text(yaml.safe_dump({"config": config}))
    with sandbox_in(tmp_path, folder=clone) as sandbox:
        monkeypatch.setenv("PULUMI_HOME", sandbox.environment["PULUMI_HOME"])
        sandbox.environment["DOCKER_HOST"] = cluster.docker_host
        install()
        try:
            await_learning(sandbox, cluster, namespace)
            sandbox.symphony("delete", STACK, "-y", timeout=120)
        finally:
            kubectl(cluster, "delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


def pid_of(program: str, namespace: str) -> int:
    """Return the pid on this machine of a program in a pod, which cannot be killed from inside."""
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            if program in (process.info["cmdline"] or ()) and namespace in str(process.environ()):
                return process.pid
    raise AssertionError(f"no {program} of {namespace} runs")


def await_learning(sandbox: Sandbox, cluster: Access, namespace: str) -> None:
    sandbox.symphony("up", STACK, "-y", timeout=300)

    def logged(process: str) -> str:
        return sandbox.symphony("logs", STACK, process, timeout=90).out

    def updates() -> list[int]:
        result = re.findall(r"update +(\S+)  .* return ", logged("evaluator-0"))
        return [int(update.replace(",", "")) for update in result]

    wait_for(lambda: any(updates()), 90, "it learns", pause=1)
    kubectl(cluster, "-n", namespace, "delete", "pod", "agent-3", "--grace-period=0", "--force")
    os.kill(pid_of("learner.py", namespace), signal.SIGKILL)
    wait_for(lambda: "learner: goes on from update" in logged("loggerplex"), 120, "it goes on", pause=1)
    before = max(updates())
    wait_for(lambda: max(updates()) > before + 20, 90, "it learns without agent-3", pause=1)
    wait_for(lambda: f"reached {TARGET}" in logged("evaluator-0"), 120, "it has learned", pause=1)
    states = {path: each["state"] for path, each in sandbox.processes(STACK).items()}
    assert states["agent-3"] == "lost"
    assert states["nonagent/learner"] == "running"
