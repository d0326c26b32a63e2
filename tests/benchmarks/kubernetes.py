"""Rows of Kubernetes: 300 pods and their Services, on nodes that do not exist, against kubectl."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from symphony import Experiment
from symphony.backends.kubernetes import target
from symphony.backends.kubernetes.manifests import render
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.build import build_plan
from tests.benchmarks import code
from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.projects import Project, project
from tests.benchmarks.timing import Row, paired
from toolchain.kubernetes.fixtures import Access, in_use
from toolchain.kubernetes.layout import Layout

COUNT = 300
RUNS = 3
PATIENCE = 960
_NUMBERS = itertools.count()
IMAGE = "localhost:5000/symphony/busybox:1"
DECLARE = """
def declare(experiment):
    for number in range({count}):
        process = experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
        process.binds(f"s-{{number}}")
        process.node_selector("type", "kwok")
        process.add_toleration(key="kwok.x-k8s.io/node", operator="Exists")
"""
PROGRAM = (
    "from symphony import Experiment\n" + DECLARE + "with Experiment() as experiment: declare(experiment)\n"
)


def rows() -> list[Row]:
    """Up, up without a change, listing, each beside kubectl with the same objects; declared code."""
    with in_use(Layout.default()) as cluster, _stacks(cluster) as ours:
        kubectl = Kubectl(cluster, ours.folder)
        result = [
            paired(
                f"up of {COUNT} pods and Services, until all run", _up(ours), kubectl.apply(wait=False),
                against="kubectl apply --server-side", goal=2, runs=RUNS,
            ),
            paired(
                f"up of {COUNT} pods and Services, until all run", _up(ours), kubectl.apply(wait=True),
                against="kubectl apply --server-side, wait", goal=None, runs=RUNS,
            ),
        ]  # fmt: skip
        configure(ours, "ours.warm", cluster, IMAGE)
        ours.symphony("up", "ours.warm", "-y")
        file, namespace = kubectl.standing()
        result += [
            paired(
                f"up of {COUNT} pods and Services, no change",
                lambda: ours.symphony("up", "ours.warm", "-y"),
                lambda: kubectl.timed("diff", "--server-side", "-f", str(file), codes=(0, 1)),
                against="kubectl diff --server-side", goal=1.5,
            ),
            paired(
                f"process of {COUNT} pods",
                lambda: ours.symphony("process", "ours.warm"),
                lambda: kubectl.timed("get", "pods", "-n", namespace),
                against="kubectl get pods", goal=2,
            ),
        ]  # fmt: skip
        kubectl.forget(namespace)
        return [*result, *code.on_kubernetes(cluster)]


@contextmanager
def _stacks(cluster: Access) -> Iterator[Project]:
    """A project whose stacks run on the cluster, with the plugin in its Pulumi home."""
    with project(PROGRAM.format(count=COUNT)) as made:
        add_plugin(made)
        for number in range(2 * RUNS):
            configure(made, f"ours.cold{number}", cluster, IMAGE)
        yield made


def _up(ours: Project) -> Callable[[], float]:
    """Each on a stack of its own, which is deleted again, uncounted."""

    def once() -> float:
        stack = f"ours.cold{next(_NUMBERS)}"
        took = ours.symphony("up", stack, "-y")
        ours.symphony("delete", stack, "-y")
        return took

    return once


class Kubectl:
    """kubectl with the manifests that symphony makes of the same program."""

    def __init__(self, cluster: Access, folder: Path) -> None:
        self._argv = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}"]
        self._folder = folder

    def timed(self, *words: str, codes: tuple[int, ...] = (0,)) -> float:
        """How long one command takes."""
        began = time.perf_counter()
        done = subprocess.run(
            [*self._argv, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        took = time.perf_counter() - began
        if done.returncode not in codes:
            raise RuntimeError(f"kubectl {words}: {done.stderr[-1000:]}")
        return took

    def apply(self, *, wait: bool) -> Callable[[], float]:
        """Make everything in a namespace of its own, and take it away again, which is not counted."""

        def once() -> float:
            file, namespace = self._manifests()
            took = self.timed("apply", "--server-side", "-f", str(file))
            if wait:
                took += self.timed(
                    "wait", "-n", namespace, "--for=condition=Ready", "pods", "--all", "--timeout=240s"
                )
            self.forget(namespace)
            return took

        return once

    def standing(self) -> tuple[Path, str]:
        """Manifests that are applied and stay, with their namespace."""
        file, namespace = self._manifests()
        self.timed("apply", "--server-side", "-f", str(file))
        return file, namespace

    def forget(self, namespace: str) -> None:
        """Take a namespace away and wait until it is gone."""
        self.timed("delete", "namespace", namespace)

    def _manifests(self) -> tuple[Path, str]:
        scope: dict[str, Any] = {}
        exec(DECLARE.format(count=COUNT), scope)
        experiment = Experiment("bench")
        scope["declare"](experiment)
        chosen, namespace = Settings(image=IMAGE, grace=0), f"bench-{uuid.uuid4().hex[:8]}"
        plan = build_plan(experiment.spec, target.target(experiment.spec, chosen, namespace))
        manifests = render.render(plan, chosen, "bench/kubectl#1").all()
        file = self._folder / f"{namespace}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        return file, namespace
