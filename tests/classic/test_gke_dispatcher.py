"""GKEDispatcher: every call of the original, on the pools of a .tf.json."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from symphony import Experiment, GKEDispatcher, Process, UserError
from symphony.placement import planner, tf_json
from symphony.placement.planner import Claim, Pod
from symphony.spec.pod import Toleration


def pool(name: str, cpu: Any, memory_m: Any, *taints: dict[str, str], **more: Any) -> dict[str, Any]:
    labels = {"name": f"{name}-label", "cpu": cpu, "memory_m": memory_m, **more}
    return {"name": name, "node_config": {"labels": labels, "taint": list(taints)}}


SURREAL = {"key": "surreal", "value": "true", "effect": "NO_EXECUTE"}
POOLS = {
    "small": pool("small", 2, 7680, SURREAL),
    "large": pool("large", 8, 53248, SURREAL),
    "gpu": pool("gpu", 16, 61440, SURREAL, gpu_type="nvidia-tesla-k80", gpu_count=4),
}
CLUSTERS = {"rl": {"zone": "us-west1-b"}}
TF = {"resource": {"google_container_cluster": CLUSTERS, "google_container_node_pool": POOLS}}
OURS = Toleration("surreal", "Equal", "true", "NoExecute")


@pytest.fixture
def process() -> Process:
    return Experiment("rl").new_process("agent", image="i")


@pytest.fixture
def dispatcher() -> GKEDispatcher:
    return GKEDispatcher(TF)


def test_pools_are_read_from_a_dict_and_a_path(tmp_path: Path, dispatcher: GKEDispatcher):
    (tmp_path / "rl.tf.json").write_text(json.dumps(TF))
    for each in (
        dispatcher,
        GKEDispatcher(tmp_path / "rl.tf.json"),
        GKEDispatcher(str(tmp_path / "rl.tf.json")),
    ):
        assert each.get_node_pools() == ["gpu", "large", "small"]
        assert each.get_node_pool("small") == POOLS["small"]
        with pytest.raises(KeyError, match='node pool "x" does not exist'):
            each.get_node_pool("x")


def test_a_share_of_a_machine(dispatcher: GKEDispatcher, process: Process):
    dispatcher.assign_to_machine(process, node_pool_name="large", process_per_machine=3)
    spec = process.spec
    assert spec.pod.node_selector == {"name": "large-label"}
    assert spec.pod.tolerations == (OURS,)
    assert (spec.resource_request.cpu, spec.resource_request.memory) == ("2518m", "15588Mi")
    assert spec.resource_limit.gpu is None


def test_a_gpu_of_a_machine(dispatcher: GKEDispatcher, process: Process):
    dispatcher.assign_to_gpu(process, node_pool_name="gpu")
    spec = process.spec
    assert spec.resource_limit.gpu == 1
    assert spec.pod.tolerations == (OURS, Toleration("nvidia.com/gpu", "Exists", None, "NoSchedule"))
    again = Experiment("e").new_process("again")
    dispatcher.assign_to_machine(again, node_pool_name="gpu", process_per_machine=4)
    assert again.spec.resource_request == spec.resource_request


def test_a_preemptible_pool_that_is_named_lets_the_process_in(process: Process):
    spot = copy.deepcopy(TF)
    spot["resource"]["google_container_node_pool"]["gpu"]["node_config"]["preemptible"] = True
    GKEDispatcher(spot).assign_to_node_pool(process, node_pool_name="gpu", cpu=1)
    pods = [Pod("agent", (Claim(cpu=1000),), tolerations=process.spec.pod.tolerations)]
    pools = [each for each in tf_json.read_pools(spot).pools if each.name == "gpu"]
    assert planner.place(pods, pools).lacking == {}


def test_amounts_in_a_pool(dispatcher: GKEDispatcher, process: Process):
    dispatcher.assign_to_node_pool(process, node_pool_name="gpu", cpu=1.5, memory_m=2048, gpu_count=2)
    spec = process.spec
    assert (spec.resource_request.cpu, spec.resource_request.memory) == ("1500m", "2048Mi")
    assert spec.resource_limit.gpu == 2
    bare = Experiment("e").new_process("bare")
    dispatcher.assign_to_node_pool(bare, node_pool_name="gpu")
    assert bare.spec.pod.node_selector == {"name": "gpu-label"}
    assert bare.spec.resource_request.cpu is None


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"cpu": 1, "memory_m": 1000}, "small"),
        ({"cpu": 3}, "large"),
        ({"gpu_type": "K80", "gpu_count": 2}, "gpu"),
        ({"gpu_type": "k80"}, "gpu"),
        ({"cpu": 1, "node_pool_name": "large"}, "large"),
    ],
)
def test_assign_to_resource_chooses_the_cheapest_pool_that_fits(
    dispatcher: GKEDispatcher, process: Process, asked: dict[str, Any], name: str
):
    dispatcher.assign_to(process, assign_to="resource", process_per_machine=None, **asked)
    assert process.spec.pod.node_selector == {"name": f"{name}-label"}


def test_a_group_gets_the_pool_and_its_process_the_resources(dispatcher: GKEDispatcher):
    group = Experiment("rl").new_process_group("g")
    process = group.new_process("agent")
    dispatcher.assign_to(
        process, assign_to="machine", node_pool_name="large", process_per_machine=2, process_group=group
    )
    dispatcher.assign_to_node_pool(process, node_pool_name="large", process_group=group)
    assert group.spec.pod.node_selector == {"name": "large-label"}
    assert group.spec.pod.tolerations == (OURS,)
    assert process.spec.pod.node_selector == {}
    assert process.spec.resource_request.cpu == "3777m"


@pytest.mark.parametrize(
    ("way", "asked", "error"),
    [
        ("machine", {"node_pool_name": "smal"}, 'node pool "smal" does not exist'),
        ("machine", {}, "missing 1 required keyword-only argument: 'node_pool_name'"),
        ("machine", {"node_pool_name": "small", "process_per_machine": 0}, "process_per_machine=0"),
        (
            "machine",
            {"node_pool_name": "gpu", "process_per_machine": 3},
            "has 4 GPUs, which 3 cannot share evenly",
        ),
        ("gpu", {"node_pool_name": "small"}, "node pool small has no GPUs"),
        ("node_pool", {"node_pool_name": "small", "cpu": 4}, "small has 1.57 cpu (4 needed)"),
        ("node_pool", {"node_pool_name": "small", "cpu": "many"}, "cpu='many' is not an amount"),
        ("resource", {"gpu_type": "v100"}, "gpu has nvidia-tesla-k80"),
        ("resource", {"cpu": 12}, "gpu is reserved for processes with GPUs"),
        ("cloud", {}, "assign_to='cloud' is invalid"),
    ],
)
def test_impossible_placements_are_refused(
    dispatcher: GKEDispatcher, process: Process, way: Any, asked: dict[str, Any], error: str
):
    before = process.spec
    with pytest.raises(UserError) as caught:
        dispatcher.assign_to(process, assign_to=way, **asked)
    assert error in str(caught.value)
    assert "test_gke_dispatcher.py" in caught.value.where
    assert process.spec == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda pools: pools.clear(), "the file has no node pools (resource.google_container_node_pool)"),
        (lambda pools: pools.update(small=[]), "node pool small: Expected object"),
        (
            lambda pools: pools["gpu"]["node_config"]["labels"].update(cpu="many"),
            "node pool gpu: node_config.labels.cpu: Expected float",
        ),
        (
            lambda pools: pools["gpu"]["node_config"]["labels"].pop("gpu_count"),
            "node pool gpu: node_config.labels: gpu_count is missing",
        ),
        (
            lambda pools: pools["small"]["node_config"]["taint"][0].update(effect="NO"),
            "node pool small: node_config.taint[0]: effect is 'NO', not one of NO_SCHEDULE",
        ),
    ],
)
def test_a_malformed_file_names_the_pool_and_the_field(tmp_path: Path, change: Any, error: str):
    broken = copy.deepcopy(TF)
    change(broken["resource"]["google_container_node_pool"])
    (tmp_path / "x.tf.json").write_text(json.dumps(broken))
    with pytest.raises(UserError) as caught:
        GKEDispatcher(tmp_path / "x.tf.json")
    assert caught.value.what.startswith(error)
    assert caught.value.where == str(tmp_path / "x.tf.json")


def test_all_invalid_fields_are_reported():
    broken = copy.deepcopy(TF)
    for entry in broken["resource"]["google_container_node_pool"].values():
        entry["node_config"]["labels"]["cpu"] = 0
    with pytest.raises(UserError) as caught:
        GKEDispatcher(broken)
    assert len(caught.value.details) == 2


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda file: file.write_text("{"), "JSON"),
        (lambda file: file.write_text("[]"), "JSON object"),
        (lambda file: None, "no such file"),
        (os.mkfifo, "not a regular file"),
    ],
    ids=["damaged", "list", "missing", "pipe"],
)
def test_an_invalid_tf_json_file_is_an_error(tmp_path: Path, make: Any, error: str):
    make(tmp_path / "x.tf.json")
    with pytest.raises(UserError, match=error):
        GKEDispatcher(tmp_path / "x.tf.json")


def test_pools_are_read_with_zones_and_taints():
    file = {
        "google_container_cluster": {"rl": {"zone": "us-west1-b", "node_locations": ["us-west1-a"]}},
        "google_container_node_pool": {
            "gpu": {
                "zone": "us-west1-b",
                "autoscaling": [{"min_node_count": 0, "max_node_count": "3"}],
                "node_config": [
                    {
                        "machine_type": "n1-standard-16",
                        "preemptible": True,
                        "guest_accelerator": [{"type": "nvidia-tesla-p100", "count": 2}],
                        "labels": {"name": "gpu", "cpu": "16", "memory_m": 61440},
                        "taint": [SURREAL],
                    }
                ],
            },
            "cpu": {
                "initial_node_count": 2,
                "node_config": {"labels": {"name": "c", "cpu": 4, "memory_m": 1}},
            },
        },
    }
    gpu, cpu = tf_json.read_pools({"resource": file}).pools
    assert (gpu.machine_type, gpu.gpu_type, gpu.gpus) == ("n1-standard-16", "nvidia-tesla-p100", 2)
    assert (gpu.spot, gpu.zones, gpu.min, gpu.max) == (True, ("us-west1-b",), 0, 3)
    assert [(each.key, each.value, each.effect) for each in gpu.taints] == [("surreal", "true", "NoExecute")]
    # Two in each zone of the cluster.
    assert (cpu.cpu, cpu.min, cpu.max, cpu.zones) == (4, 4, 4, ("us-west1-b", "us-west1-a"))
