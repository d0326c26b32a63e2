"""A GKE cluster as a stack and an experiment on it, from `up` to `delete`, also with killed runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal

import pytest

from tests.gke.conftest import Google
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(420)]
CLUSTER = """
from symphony import GkeCluster, NodePool
FAKE = [("kwok.x-k8s.io/node", "fake", "NoSchedule")]
GkeCluster("NAME", location="us-central1-a", own_network=OWN_NETWORK, pools=[
    NodePool("NAME-cpu", "e2-standard-8", min=1, max=MACHINES, taints=FAKE),
    NodePool("NAME-gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=1, taints=FAKE),
])
"""
EXPERIMENT = """
with Experiment() as e:
    learner = e.new_process("learner", image="none:1", command=["sleep", "9"])
    learner.place(pool="NAME-gpu", gpu=1)
    for i in range(4):
        agent = e.new_process(f"agent-{i}", image="none:1", command=["sleep", "9"])
        agent.place(pool="NAME-cpu", per_machine=2)
"""

BUILT = """
from pathlib import Path
from symphony import Experiment, Image
Path("Dockerfile").write_text("FROM none:1\\n")
with Experiment() as e:
    e.new_process("learner", image=Image("trainer"), command="learn").place("NAME-cpu")
"""


def write(sandbox: Sandbox, google: Google, machines: int = 2, own_network: bool = False) -> None:
    program = CLUSTER.replace("OWN_NETWORK", str(own_network))
    program = program.replace("NAME", google.name).replace("MACHINES", str(machines))
    (sandbox.folder / "stacks" / "gke.py").write_text(program)
    program = "from symphony import Experiment\n" + EXPERIMENT.replace("NAME", google.name)
    (sandbox.folder / "stacks" / "rl.py").write_text(program)
    sandbox.config("gke", **{"gcp:project": "my-project"})
    sandbox.config(
        "rl.gke", backend="kubernetes", cluster="gke", namespace=f"on-{google.name}", patience="30"
    )


def test_cluster_and_experiment_from_up_to_delete(sandbox: Sandbox, google: Google, cluster: Access) -> None:
    write(sandbox, google)
    early = sandbox.symphony("up", "rl.gke", "-y", code=2).err
    assert "the cluster's stack gke does not exist" in early
    manifests = sandbox.symphony("plan", "rl.gke", "--yaml").out
    assert "kind: Pod" in manifests
    assert "nvidia.com/gpu: '1'" in manifests

    planned = sandbox.symphony("plan", "gke").out
    assert "7 to create" in planned
    assert f"NodePool {google.name}-{google.name}-gpu" in planned
    assert google.nodes() == []
    up = sandbox.symphony("up", "gke", "-y", timeout=120)
    assert "gke is up: 7 resources" in up.out
    # The fake Google makes as many nodes as the max of each pool: 2 + 1.
    assert len(google.nodes()) == 3
    kinds = ["Account", "Cluster", "IAMMember", "NodePool", "NodePool", "Repository", "RepositoryIamMember"]
    assert google.resource_types() == kinds
    assert "Nothing changes" in sandbox.symphony("plan", "gke").out

    sandbox.symphony("up", "rl.gke", "-y", timeout=120)
    processes = sandbox.processes("rl.gke")
    assert {each["state"] for each in processes.values()} == {"running"}
    assert sandbox.symphony("plan", "rl.gke", "--yaml").out.count("kind: Pod\n") == manifests.count(
        "kind: Pod\n"
    )
    (listed,) = [each for each in sandbox.symphony("ls", "--json").json if each["name"] == "gke"]
    assert listed["kind"] == "cluster"
    assert "2 pools" in listed["state"]
    assert f"pool {google.name}-gpu" in sandbox.symphony("why", "rl.gke", "learner").out
    state = (sandbox.home / "state" / ".pulumi" / "stacks" / "gke" / "gke.json").read_text()
    assert "gke-gcloud-auth-plugin" not in state, "the kubeconfig is a secret of its stack"

    (sandbox.folder / "stacks" / "built.py").write_text(BUILT.replace("NAME", google.name))
    sandbox.config("built", backend="kubernetes", cluster="gke")
    (planned,) = sandbox.symphony("plan", "built", "--json").json["plan"]["processes"]
    assert planned["image"].startswith(f"us-central1-docker.pkg.dev/my-project/{google.name}/trainer:")
    # The base image does not exist: a failed `up` leaves no experiment on the cluster.
    sandbox.symphony("up", "built", "-y", code=1)

    refused = sandbox.symphony("delete", "gke", "-y", code=2).err
    assert "rl.gke runs on the cluster gke" in refused
    assert len(google.nodes()) == 3
    sandbox.symphony("delete", "rl.gke", "-y", timeout=120)
    # Without the stack of a cluster, its pools are read from the labels of its nodes.
    sandbox.config("rl.live", backend="kubernetes", **{"kubernetes:kubeconfig": cluster.kubeconfig})
    planned = sandbox.symphony("plan", "rl.live").out
    assert f"{google.name}-gpu" in planned
    assert f"{google.name}-cpu" in planned
    sandbox.symphony("delete", "gke", "--forget", "-y", timeout=120)
    assert google.nodes() == []
    assert google.resource_types() == []
    sandbox.symphony("delete", "built", "-y")
    assert sandbox.symphony("ls", "--json").json == []


@pytest.mark.thorough
def test_pool_sizes_change_in_place_and_the_plan_names_replacements(sandbox: Sandbox, google: Google) -> None:
    write(sandbox, google, own_network=True)
    sandbox.symphony("up", "gke", "-y", timeout=120)
    assert {"Network", "Subnetwork"} < {*google.resource_types()}
    before = google.nodes()
    write(sandbox, google, machines=3, own_network=True)
    changes = {each["name"]: each for each in sandbox.symphony("plan", "gke", "--json").json["changes"]}
    assert changes[f"NodePool {google.name}-{google.name}-cpu"]["kind"] == "update"
    sandbox.symphony("up", "gke", "-y", timeout=120)
    assert {*google.nodes()} > {*before}
    program = (sandbox.folder / "stacks" / "gke.py").read_text()
    (sandbox.folder / "stacks" / "gke.py").write_text(program.replace("tesla-v100", "tesla-t4"))
    plan = sandbox.symphony("plan", "gke").out
    (row,) = [line for line in plan.splitlines() if f"{google.name}-gpu" in line]
    assert "replace" in row
    assert "guestAccelerators" in row
    (sandbox.folder / "stacks" / "gke.py").write_text(program.replace("us-central1-a", "us-central1-b"))
    plan = sandbox.symphony("plan", "gke").out
    assert re.search(rf"Cluster {google.name} +replace .* location", plan), plan
    assert plan.count("the cluster is replaced") == 2
    sandbox.symphony("delete", "gke", "-y", timeout=120)
    assert google.nodes() == []


@pytest.mark.slow
def test_the_next_run_completes_a_killed_one(sandbox: Sandbox, google: Google) -> None:
    """Resources that Google began to create are adopted; it would refuse to create them twice."""
    write(sandbox, google)
    # The fake Google takes a second to create or delete a cluster or a pool.
    sandbox.environment["SYMPHONY_GCP_SECONDS"] = "1"
    for verb, begun in (
        ("up", lambda: "Cluster" in google.resource_types()),
        ("up", lambda: "NodePool" in google.resource_types()),
        ("delete", lambda: google.resource_types().count("NodePool") < 2),
    ):
        process = sandbox.start([str(SYMPHONY), verb, "gke", "-y"], start_new_session=True)
        wait_for(begun, 90, "it is in the middle", 0.02)
        for pid in sandbox.engines():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        wait_for(lambda: not sandbox.engines(), 20, "the engine is gone")
        if verb == "up" and "NodePool" in google.resource_types():
            sandbox.symphony("up", "gke", "-y", timeout=150)
            assert len(google.nodes()) == 3
            assert google.resource_types().count("NodePool") == 2
    sandbox.symphony("delete", "gke", "-y", timeout=150)
    assert google.resource_types() == google.nodes() == []
    assert sandbox.symphony("ls", "--json").json == []
