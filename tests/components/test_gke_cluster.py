"""Invalid GKE clusters are refused with all problems and lines; labels and taints of node pools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from symphony import NodePool
from symphony.placement.pool import Taint
from tests.sandbox import Sandbox, sandbox_in

# A program with mistakes in lines 2 to 7; WRONG has the words of each report, by line.
PROGRAM = """from symphony import GkeCluster, NodePool
GkeCluster("rl", location="us-central1-a", pools=[
    NodePool("cpu", "e2-standart-8"),
    NodePool("cpu", "e2-standard-8", min=3, max=2),
    NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 3)),
    NodePool("far", "e2-standard-8", zones=["europe-west4-a"]),
    NodePool("Big", "e2-standard-8", taints=[("a", "b", "Sometimes")], disk_gb=-5),
])
"""
# An unknown location, and no pools.
ELSEWHERE = """from symphony import GkeCluster
GkeCluster("rl", location="us-centrl1", pools=[])
"""
WRONG_TYPE = """from symphony import NodePool
NodePool("cpu", "e2-standard-8", max="8")
"""
WRONG = {
    2: (
        "cluster rl has no Google Cloud project",
        "set gcp:project in the config of Pulumi.gke.yaml",
        "has no Google credentials",
    ),
    3: ("node pool cpu is declared 2 times",),
    4: ("min 3 above max 2",),
    5: ("takes 1, 2, 4 or 8 nvidia-tesla-v100",),
    6: ("is in europe-west4-a, outside of us-central1",),
    7: ("pool Big has a name that GKE refuses", "unknown effect Sometimes", "has a disk of -5 GB"),
}


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path) as made:
        for name in [each for each in made.environment if each.startswith(("GOOGLE_", "GCLOUD_"))]:
            del made.environment[name]
        made.environment["CLOUDSDK_CONFIG"] = str(tmp_path)
        yield made


@pytest.mark.thorough
def test_all_problems_of_a_gke_cluster_are_reported_at_once(sandbox: Sandbox) -> None:
    (sandbox.folder / "__main__.py").write_text(PROGRAM)
    messages = sandbox.symphony("up", "gke", "-y", code=2).err
    assert "Nothing was started." in messages
    assert sandbox.stacks() == set()
    for line, words in WRONG.items():
        rows = [row for row in messages.splitlines() if re.search(rf"lines? (\d+, )*{line}\b", row)]
        for word in words:
            assert any(word in row for row in rows), f"{word} on line {line}:\n{messages}"
    (sandbox.folder / "__main__.py").write_text(ELSEWHERE)
    messages = sandbox.symphony("plan", "gke", code=2).err
    assert "cluster rl is in us-centrl1, which is not a zone or region" in messages
    (sandbox.folder / "__main__.py").write_text(WRONG_TYPE)
    messages = sandbox.symphony("plan", "gke", code=2).err
    assert "max has the type str" in messages
    assert "__main__.py:2" in messages
    assert "declares no node pool" not in messages


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("gke", "the cluster's stack gke does not exist"),
        ("bare", "the cluster's stack bare has no outputs yet"),
    ],
)
def test_a_missing_cluster_stack_is_refused_before_anything_starts(
    sandbox: Sandbox, cluster: str, words: str
) -> None:
    sandbox.write('with Experiment() as e: e.new_process("a", image="i", command="x")')
    sandbox.pulumi("stack", "init", "bare")
    sandbox.config("rl", backend="kubernetes", cluster=cluster)
    messages = sandbox.symphony("up", "rl", "-y", code=2).err
    assert words in messages
    assert f"`symphony up {cluster}`" in messages


def test_gpu_and_spot_pools_get_taints_and_gpu_types_googles_names() -> None:
    pool = NodePool(
        "gpu", "n1-standard-8", accelerator=("v100", 2), spot=True, taints=[("a", "b", "NO_EXECUTE")]
    )
    assert pool.pool.taints == (
        Taint("a", "b", "NoExecute"),
        Taint("nvidia.com/gpu", "present"),
        Taint("cloud.google.com/gke-spot", "true"),
    )
    assert pool.pool.gpu_type == "nvidia-tesla-v100"
    assert NodePool("a100", "a2-highgpu-2g").pool.gpus == 2
