"""The fake Google Cloud validates requests by GKE's protobuf messages, and creates nodes as GKE does."""

from typing import Any

import pytest

from symphony.placement.pool import Taint, allocatable
from toolchain.plugin_gcp import messages, nodes
from toolchain.plugin_gcp.messages import CLUSTER, POOL

CONFIG = {
    "machineType": "n1-standard-8",
    "diskSizeGb": 100,
    "spot": True,
    "labels": {"teamName": "rl"},
    "taints": [{"key": "team", "value": "rl", "effect": "NO_EXECUTE"}],
    "guestAccelerators": [
        {
            "type": "nvidia-tesla-v100",
            "count": 2,
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
        }
    ],
    "workloadMetadataConfig": {"mode": "GKE_METADATA"},
}
GPU_POOL = {
    "name": "gpu",
    "cluster": "rl",
    "location": "us-central1-a",
    "project": "p",
    "nodeConfig": CONFIG,
    "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"},
}
OF_CLUSTER = {
    "name": "rl",
    "location": "us-central1",
    "networkingMode": "VPC_NATIVE",
    "ipAllocationPolicy": {},
    "releaseChannel": {"channel": "REGULAR"},
    "enableShieldedNodes": True,
    "deletionProtection": False,
    "removeDefaultNodePool": True,
}


def with_changes(inputs: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {**inputs, "nodeConfig": {**inputs["nodeConfig"], **config}}


def test_valid_requests_become_gke_messages():
    assert [*messages.problems(POOL, GPU_POOL)] == []
    assert [*messages.problems(CLUSTER, OF_CLUSTER)] == []
    pool = messages.message(POOL, GPU_POOL)
    assert pool.config.accelerators[0].accelerator_count == 2
    assert pool.config.labels == {"teamName": "rl"}, "the user's own keys are left as they are"
    assert pool.autoscaling.enabled
    cluster = messages.message(CLUSTER, OF_CLUSTER)
    assert cluster.shielded_nodes.enabled
    assert cluster.ip_allocation_policy.use_ip_aliases


@pytest.mark.parametrize(
    ("type_", "inputs", "words"),
    [
        (POOL, with_changes(GPU_POOL, machinetyp="n1"), 'no field named "machinetyp"'),
        (
            POOL,
            with_changes(GPU_POOL, taints=[{"key": "a", "effect": "NoSchedule"}]),
            "Invalid enum value NoSchedule",
        ),
        (POOL, with_changes(GPU_POOL, diskSizeGb="large"), "disk_size_gb"),
        (POOL, {**GPU_POOL, "autoscaling": {"totalMaxNodes": 3}}, 'no field named "total_max_nodes"'),
        (POOL, {**GPU_POOL, "nodeLocations": ["europe-west4-a"]}, "outside of us-central1"),
        (POOL, {**GPU_POOL, "name": "GPU"}, 'Invalid value for field "name"'),
        (CLUSTER, {**OF_CLUSTER, "releaseChannel": {"channel": "WEEKLY"}}, "Invalid enum value WEEKLY"),
        (CLUSTER, {**OF_CLUSTER, "resourceLabels": "rl"}, "resource_labels"),
    ],
)
def test_requests_that_gke_would_refuse_are_refused(type_: str, inputs: dict[str, Any], words: str):
    assert words in "; ".join(messages.problems(type_, inputs))


def test_a_pool_becomes_nodes_with_gkes_labels_taints_and_capacity():
    pool = messages.pool_of(GPU_POOL)
    assert Taint("nvidia.com/gpu", "present") in pool.taints
    node = nodes._node("gke-rl-gpu-0", "rl", "us-central1-a", pool, 0)
    labels = node["metadata"]["labels"]
    assert labels["cloud.google.com/gke-nodepool"] == "gpu"
    assert labels["cloud.google.com/gke-accelerator"] == "nvidia-tesla-v100"
    assert labels["cloud.google.com/gke-spot"] == "true"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["status"]["allocatable"]["cpu"] == f"{allocatable(pool).cpu}m"
    assert {"key": "team", "value": "rl", "effect": "NoExecute"} in node["spec"]["taints"]
