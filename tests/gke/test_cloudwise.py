"""A cluster from a cloudwise file with its own network; GKEDispatcher places pods on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gke.conftest import Google
from tests.sandbox import Sandbox
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(420)]
FAKE = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NO_SCHEDULE"}
CLUSTER = """
from symphony import GkeCluster
cluster = GkeCluster.from_tf_json("rl.tf.json", name="NAME", own_network=True)
"""
EXPERIMENT = """
from symphony import Experiment, GKEDispatcher
dispatcher = GKEDispatcher(cluster)
with Experiment() as e:
    learner = e.new_process("learner", image="none:1", command=["sleep", "9"])
    dispatcher.assign_to_gpu(learner, node_pool_name="NAME-gpu")
    for i in range(4):
        agent = e.new_process(f"agent-{i}", image="none:1", command=["sleep", "9"])
        dispatcher.assign_to_machine(agent, node_pool_name="NAME-cpu", process_per_machine=2)
"""


def node_pool(
    label: str, most: int, machine_type: str, cpu: int, memory_m: int, **gpus: Any
) -> dict[str, Any]:
    config = {
        "machine_type": machine_type,
        "labels": {"name": label, "cpu": cpu, "memory_m": memory_m}
        | ({"gpu_type": gpus["type"], "gpu_count": gpus["count"]} if gpus else {}),
        "taint": [FAKE],
        "guest_accelerator": [gpus] if gpus else [],
        "preemptible": bool(gpus),
    }
    return {"autoscaling": {"min_node_count": 0, "max_node_count": most}, "node_config": config}


@pytest.mark.slow
def test_a_cloudwise_cluster_starts_and_runs_a_classic_program(
    sandbox: Sandbox, google: Google, cluster: Access
) -> None:
    """GKEDispatcher takes the pools of the cluster in the same program, and waits until it is up."""
    gpu = {"type": "nvidia-tesla-v100", "count": 1}
    pools = {
        f"{google.name}-cpu": node_pool("agents", 2, "e2-standard-8", 8, 32768),
        f"{google.name}-gpu": node_pool("learners", 1, "n1-standard-8", 8, 30720, **gpu),
    }
    clusters = {"rl": {"name": "rl-1", "zone": "us-west1-b"}}
    kinds = {"google_container_cluster": clusters, "google_container_node_pool": pools}
    content = {"resource": {**kinds, "google_compute_address": {"door": {}}}}
    (sandbox.folder / "rl.tf.json").write_text(json.dumps(content))
    program = sandbox.folder / "stacks" / "gke.py"
    program.write_text(CLUSTER.replace("NAME", google.name))
    settings = {"gcp:project": "my-project", "kubernetes:kubeconfig": cluster.kubeconfig}
    sandbox.config("gke", backend="kubernetes", namespace=f"on-{google.name}", patience="30", **settings)
    planned = sandbox.symphony("plan", "gke").out
    assert "9 to create" in planned
    assert "not converted: resource.google_compute_address.door" in planned
    sandbox.symphony("up", "gke", "-y", timeout=150)
    assert {"Network", "Subnetwork"} < {*google.resource_types()}
    assert len(google.nodes()) == 3
    program.write_text((CLUSTER + EXPERIMENT).replace("NAME", google.name))
    up = sandbox.symphony("up", "gke", "-y", timeout=120)
    assert {each["state"] for each in sandbox.processes("gke").values()} == {"running"}, up
    nodes = [each["node"] for each in sandbox.processes("gke").values()]
    assert sorted(map(nodes.count, {*nodes})) == [1, 2, 2]
    sandbox.symphony("delete", "gke", "-y", timeout=120)
    assert google.resource_types() == google.nodes() == []
