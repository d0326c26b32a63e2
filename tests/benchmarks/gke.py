"""Rows of a cluster on GKE: 500 machines through the stand-in, 2,000 pods placed there, against kubectl."""

from __future__ import annotations

import json
import os
import resource
import uuid
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import CoreV1Api

from symphony import Experiment, NodePool
from symphony.backends.kubernetes import plugin, target
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.planner import place
from symphony.placement.pool import Pool
from symphony.placement.prices import LIST_PRICES
from symphony.plan.build import build_plan
from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.kubernetes import IMAGE, Kubectl
from tests.benchmarks.projects import project
from tests.benchmarks.timing import Row, alone, seconds
from tests.placement import fleet
from toolchain.kubernetes.fixtures import Access, in_use
from toolchain.kubernetes.layout import Layout
from toolchain.plugin_gcp import nodes

MACHINES = int(os.environ.get("BENCH_MACHINES", "500"))
PODS = 4 * MACHINES
GCLOUD = Path(nodes.__file__).with_name("gcloud")
FAKE = ("kwok.x-k8s.io/node", "fake", "NoSchedule")
DECLARE = """
def declare(experiment):
    for number in range({count}):
        process = experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
        process.place("{pool}", per_machine=4)
"""


CLUSTER = """
from symphony import GkeCluster, NodePool
taints = [("kwok.x-k8s.io/node", "fake", "NoSchedule")]
pool = NodePool("{pool}", "e2-standard-8", max={count}, taints=taints)
GkeCluster("{pool}", location="us-central1-a", pools=[pool])
"""


def rows() -> list[Row]:
    """Once each: a cluster through the stand-in for Google, then pods on it by symphony and by kubectl."""
    name = f"b{uuid.uuid4().hex[:6]}"
    pool = NodePool(name, "e2-standard-8", max=MACHINES, taints=[FAKE]).pool
    declare = DECLARE.format(count=PODS, pool=name)
    launch = "with Experiment() as experiment: declare(experiment)"
    program = f"from symphony import Experiment\n{declare}{launch}\n"
    with in_use(Layout.default()) as cluster, project(program) as ours:
        ours.env |= {"PATH": f"{GCLOUD}{os.pathsep}{os.environ['PATH']}", "GOOGLE_OAUTH_ACCESS_TOKEN": "none"}
        (ours.folder / "stacks" / "gke.py").write_text(CLUSTER.format(count=MACHINES, pool=name))
        (ours.folder / "stacks" / "Pulumi.gke.yaml").write_text("config: {gcp:project: bench}\n")
        add_plugin(ours)
        add_plugin(ours, plugin.GCP)
        configure(ours, "ours.gke", cluster, IMAGE, **{"symphony:cluster": "gke"})
        try:
            machines = ours.symphony("up", "gke", "-y")
            took = ours.symphony("up", "ours.gke", "-y")
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            ours.symphony("delete", "ours.gke", "-y")
            theirs = _by_kubectl(cluster, ours.folder, declare, pool)
        finally:
            nodes.remove(CoreV1Api(config.new_client_from_config(cluster.kubeconfig)), name)
    what = f"up of {PODS} pods on {MACHINES} machines, until all run"
    return [
        alone("5,000 pods of 1,073 sizes placed on 1,000 machines", _placing, goal=1),
        Row(f"up of a cluster of {MACHINES} machines", machines),
        Row(what, took, theirs, took / theirs, against="kubectl apply --server-side, wait"),
        Row("largest process of these", memory, unit="MB"),
    ]


def _placing() -> float:
    kinds = ("n1-standard-4", "n1-highmem-4", "n1-standard-8", "n1-highmem-8", "n1-highcpu-16")
    pools = [fleet.pool(f"p{i}", kind, max=200) for i, kind in enumerate(kinds)]
    pods = [fleet.pod(f"a{i}", 0.2 + i * 7 % 29 / 16, 0.5 + i * 11 % 37 / 15) for i in range(5000)]
    return seconds(lambda: place(pods, pools, LIST_PRICES))


def _by_kubectl(cluster: Access, folder: Path, declare: str, pool: Pool) -> float:
    """The manifests that symphony makes of the same program."""
    scope: dict[str, Any] = {}
    exec(declare, scope)
    experiment = Experiment("bench")
    scope["declare"](experiment)
    chosen, namespace = Settings(image=IMAGE, grace=0), f"bench-{uuid.uuid4().hex[:8]}"
    spec = experiment.spec
    plan = build_plan(spec, target.target(spec, chosen, namespace, pools=(pool,)))
    file = folder / f"{namespace}.json"
    items = render.render(plan, chosen, "bench/kubectl#1").all()
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    kubectl = Kubectl(cluster, folder)
    took = kubectl.timed("apply", "--server-side", "-f", str(file))
    ready = ("--for=condition=Ready", "pods", "--all", "--timeout=900s")
    took += kubectl.timed("wait", "-n", namespace, *ready)
    kubectl.forget(namespace)
    return took
