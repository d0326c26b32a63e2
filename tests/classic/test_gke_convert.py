"""A cluster of cloudwise as a GkeCluster, by its file or as a program: the same pools, and what is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import symphony
from symphony import gke
from symphony.components.gke.cluster import GkeCluster
from symphony.placement import tf_json
from symphony.placement.check import faults
from symphony.placement.pool import GPU_TAINT, Pool, Taint

GPU = {
    "cluster": "${google_container_cluster.rl.name}",
    "zone": "us-west1-b",
    "initial_node_count": 0,
    "autoscaling": {"min_node_count": 0, "max_node_count": 3},
    "node_config": {
        "machine_type": "n1-standard-16",
        "disk_size_gb": 30,
        "preemptible": True,
        "guest_accelerator": [{"type": "nvidia-tesla-p100", "count": 2}],
        "labels": {
            "name": "gpu",
            "cpu": 16,
            "memory_m": 61440,
            "gpu_type": "nvidia-tesla-p100",
            "gpu_count": 2,
        },
        "taint": [{"key": "surreal", "value": "true", "effect": "NO_EXECUTE"}],
        "local_ssd_count": 1,
    },
}
CPU = {
    "node_count": 2,
    "node_config": {
        "machine_type": "n1-standard-4",
        "labels": {"name": "cpu", "cpu": "4", "memory_m": "15360"},
    },
}
CLUSTER = {"name": "rl-1", "zone": "us-west1-b", "additional_zones": ["us-west1-a"]}
TF: dict[str, Any] = {
    "provider": {"google": {"project": "p"}},
    "resource": {
        "google_container_cluster": {
            "rl": {"name": "rl-1", "zone": "us-west1-b", "additional_zones": ["us-west1-a"]}
        },
        "google_container_node_pool": {"gpu": GPU, "cpu": CPU},
        "google_compute_network": {"net": {}},
    },
}


class Taken:
    """Keeps what a GkeCluster is declared with."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.location: str = options["location"]
        self.pools: tuple[Pool, ...] = tuple(each.pool for each in options["pools"])


def test_what_the_file_says_of_pools():
    gpu, cpu = tf_json.read(TF).pools
    assert (gpu.machine_type, gpu.gpu_type, gpu.gpus) == ("n1-standard-16", "nvidia-tesla-p100", 2)
    assert (gpu.spot, gpu.zones, gpu.min, gpu.max) == (True, ("us-west1-b",), 0, 3)
    assert gpu.taints == (Taint("surreal", "true", "NoExecute"),)
    # Two of each zone of the cluster.
    assert (cpu.cpu, cpu.min, cpu.max, cpu.zones) == (4, 4, 4, ("us-west1-b", "us-west1-a"))


def converted(program: str) -> Taken:
    made: list[Taken] = []

    def declare(name: str, **options: Any) -> None:
        made.append(Taken(name, **options))

    before, symphony.GkeCluster = symphony.GkeCluster, declare  # type: ignore[misc, assignment]
    try:
        exec(program, {})
    finally:
        symphony.GkeCluster = before  # type: ignore[misc]
    return made[0]


def test_a_program_declares_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "rl.tf.json").write_text(json.dumps(TF))
    assert gke.main(["convert", str(tmp_path / "rl.tf.json")]) == 0
    out, err = capsys.readouterr()
    by_program, by_file = (
        converted(out),
        vars(GkeCluster)["from_tf_json"].__func__(Taken, tmp_path / "rl.tf.json"),
    )
    assert by_program.pools == by_file.pools
    assert (
        (by_program.name, by_program.location) == ("rl-1", "us-west1-b") == (by_file.name, by_file.location)
    )
    for pool, read in zip(by_file.pools, tf_json.read(TF).pools, strict=True):
        own = {"cpu": pool.cpu, "memory": pool.memory, "selector": {}}
        added = [each for each in pool.taints if each not in read.taints]
        assert replace(read, taints=pool.taints, **own) == pool
        assert {each.key for each in added} <= {GPU_TAINT, "cloud.google.com/gke-spot"}
    assert not list(faults(by_file.pools, by_file.location))
    lost = [
        "provider.google",
        "resource.google_compute_network.net",
        "node pool gpu: node_config.local_ssd_count",
    ]
    assert err == "".join(f"not converted: {each}\n" for each in lost)
    assert all(f"#   {each}\n" in out for each in lost)


@pytest.mark.parametrize("words", [[], ["convert"], ["conwert", "x"]])
def test_other_words_are_told_how_to(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert gke.main(words) == 2
    assert capsys.readouterr().err.startswith("usage: python -m symphony.gke convert")


def test_a_wrong_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert gke.main(["convert", str(tmp_path / "none.tf.json")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("symphony: could not read the .tf.json: no such file")
