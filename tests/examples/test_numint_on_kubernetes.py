"""numint as pods of a real image: the result is right although a pod of workers dies in the middle."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.desk import ROOT, SYMPHONY, Desk, desk_in, wait_for
from toolchain.kubernetes import built
from toolchain.kubernetes.fixtures import Access, cluster
from toolchain.plugin_kubernetes.install import install

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(500)]
STACK = "numint.pods"


@pytest.fixture
def desk(cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The root project, with a stack of numint for the cluster."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")
    folder = tmp_path / "clone"
    for part in ("stacks", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "Pulumi.*"))
    for part in ("Pulumi.yaml", "__main__.py"):
        shutil.copy(ROOT / part, folder / part)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    settings = {
        "symphony:backend": "kubernetes",
        "symphony:image": built.numint(cluster.registry, cluster.docker_host),
        "symphony:namespace": f"numint-{uuid.uuid4().hex[:6]}",
        "symphony:podSecurity": "restricted",
        "kubernetes:kubeconfig": cluster.kubeconfig,
        "numint:workers": "3",
        "numint:steps": "600000000",
        "numint:pieces": "60",
    }
    (folder / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({"config": settings}))
    with desk_in(tmp_path, folder=folder) as made:
        monkeypatch.setenv("PULUMI_HOME", made.environment["PULUMI_HOME"])
        install()
        yield made
    kubectl(
        cluster, "delete", "namespace", settings["symphony:namespace"], "--ignore-not-found", "--wait=false"
    )


def kubectl(cluster: Access, *words: str) -> str:
    argv = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_numint_on_pods_survives_the_loss_of_one(desk: Desk, cluster: Access) -> None:
    """Two of three workers share the pod that goes: their pieces are done by the third."""
    running = desk.start([str(SYMPHONY), "up", STACK, "-y"])

    def working() -> bool:
        said = desk.symphony("logs", STACK, "worker-0", code=None)
        return said.code == 0 and "piece " in said.out

    wait_for(working, 120, "the worker works", pause=0.5)
    namespace = yaml.safe_load((desk.folder / "stacks" / f"Pulumi.{STACK}.yaml").read_text())["config"][
        "symphony:namespace"
    ]
    kubectl(cluster, "-n", namespace, "delete", "pod", "pool-0", "--grace-period=0", "--force")
    running.communicate(timeout=120)

    def result() -> re.Match[str] | None:
        return re.search(
            r"^pi = (\S+), off by (\S+), .*: right$", desk.symphony("logs", STACK, "reducer").out, re.M
        )

    found = wait_for(result, 180, "the result", pause=1)
    assert abs(float(found[1]) - math.pi) < 1e-9
    assert float(found[2]) < 1e-9
    said = desk.symphony("logs", STACK, "reducer").out
    assert "from 3 workers" in said
    assert "60/60 pieces" in said
    states = {path: each["state"] for path, each in desk.processes(STACK).items()}
    assert (states["pool-0/worker-0"], states["pool-0/worker-1"]) == ("lost", "lost")
    wait_for(
        lambda: desk.processes(STACK)["reducer"]["state"] == "completed", 30, "the reducer ends", pause=0.5
    )
    desk.symphony("delete", STACK, "-y")
    assert kubectl(cluster, "get", "namespace", namespace, "--ignore-not-found", "-o", "name") == ""
