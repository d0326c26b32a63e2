"""Rows of a cluster on GKE: 500 machines through the stand-in, 2,000 pods placed there, against kubectl."""

from __future__ import annotations

import json
import os
import resource
import time
import uuid
from pathlib import Path
from typing import Any

from symphony import Experiment, NodePool
from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.placement.pool import Pool
from symphony.plan.build import build_plan
from symphony.plan.checked_spec import checked
from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.kubernetes import IMAGE, Kubectl
from tests.benchmarks.projects import project
from tests.benchmarks.timing import Row
from toolchain.kubernetes.fixtures import Access, in_use
from toolchain.kubernetes.layout import Layout
from toolchain.plugin_gcp import nodes
from toolchain.plugin_kubernetes.api import access
from toolchain.plugin_kubernetes.api.connection import Connection

MACHINES = int(os.environ.get("BENCH_MACHINES", "500"))
PODS = 4 * MACHINES
FAKE = ("kwok.x-k8s.io/node", "fake", "NoSchedule")
DECLARE = """
def declare(experiment):
    for number in range({count}):
        process = experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
        process.place("{pool}", per_machine=4)
"""


def rows() -> list[Row]:
    """Once each: the machines, then the pods on them by symphony and by kubectl."""
    name = f"b{uuid.uuid4().hex[:6]}"
    pool = NodePool(name, "e2-standard-8", max=MACHINES, taints=[FAKE]).pool
    declare = DECLARE.format(count=PODS, pool=name)
    launch = "with Experiment() as experiment: declare(experiment)"
    program = f"from symphony import Experiment\n{declare}{launch}\n"
    with in_use(Layout.default()) as cluster, project(program) as ours:
        requests = Connection(access.load(cluster.kubeconfig))
        began = time.perf_counter()
        try:
            nodes.ensure(requests, name, "us-central1-a", pool)
            print(f"{MACHINES} machines in {time.perf_counter() - began:.1f} s", flush=True)
            add_plugin(ours)
            configure(ours, "ours.gke", cluster, IMAGE)
            took = ours.symphony("up", "ours.gke", "-y")
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
            print(f"largest process of up: {memory} MiB", flush=True)
            ours.symphony("delete", "ours.gke", "-y")
            theirs = _by_kubectl(cluster, ours.folder, declare, pool)
        finally:
            nodes.remove(requests, name)
    what = f"up of {PODS} pods on {MACHINES} machines, until all run"
    return [Row(what, took, theirs, took / theirs, against="kubectl apply --server-side, wait")]


def _by_kubectl(cluster: Access, folder: Path, declare: str, pool: Pool) -> float:
    """The manifests that symphony makes of the same program."""
    scope: dict[str, Any] = {}
    exec(declare, scope)
    experiment = Experiment("bench")
    scope["declare"](experiment)
    chosen, namespace = Settings(image=IMAGE, grace=0), f"bench-{uuid.uuid4().hex[:8]}"
    spec = checked(experiment.spec)
    plan = build_plan(spec, target.target(spec, chosen, namespace, pools=(pool,)))
    file = folder / f"{namespace}.json"
    items = render.render(plan, chosen, "bench/kubectl#1").all()
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    kubectl = Kubectl(cluster, folder)
    took = kubectl.timed("apply", "--server-side", "-f", str(file))
    ready = ("--for=condition=Ready", "pods", "--all", "--timeout=240s")
    took += kubectl.timed("wait", "-n", namespace, *ready)
    kubectl.forget(namespace)
    return took
