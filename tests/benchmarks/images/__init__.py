"""The loop on a cluster: a file is edited until pods run it, against Docker and kubectl by hand."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from symphony_docker.engine import Engine
from tests.benchmarks.clusters import add_plugin, configure
from tests.benchmarks.projects import Project, project
from tests.benchmarks.timing import Row
from toolchain.kubernetes.fixtures import Access, in_use
from toolchain.kubernetes.images import BUSYBOX_IMAGE
from toolchain.kubernetes.layout import Layout

PODS = 3
DEADLINE = 300
RUNS = 3
_EDITS = itertools.count()
PROGRAM = f"""
from symphony import Experiment, Image
with Experiment(image=Image("loop", context="app")) as experiment:
    for number in range({PODS}):
        experiment.new_process(f"p-{{number}}")
"""
DOCKERFILE = f"FROM {BUSYBOX_IMAGE}\nRUN echo dependencies\nCOPY code /code\nCMD sleep 100000\n"


def rows() -> list[Row]:
    """One edit, built, pushed and running: ours, then by hand, in turn."""
    with in_use(Layout.default()) as cluster, project(PROGRAM) as ours:
        os.environ["DOCKER_HOST"] = ours.env["DOCKER_HOST"] = cluster.docker_host or Engine().place
        add_plugin(ours)
        namespace = configure(ours, "ours.loop", cluster, BUSYBOX_IMAGE)
        file = ours.folder / "stacks" / "Pulumi.ours.loop.yaml"
        settings = yaml.safe_load(file.read_text())["config"]
        settings["symphony:registry"] = f"{cluster.registry}/{namespace}"
        file.write_text(yaml.safe_dump({"config": settings}))
        app = ours.folder / "app"
        (app / "code").mkdir(parents=True)
        (app / "Dockerfile").write_text(DOCKERFILE)
        hand = _Hand(cluster, app, f"{cluster.registry}/{namespace}/hand", f"{namespace}-hand")
        _edit(app)
        ours.symphony("up", "ours.loop", "-y")
        hand.begin()
        try:
            pairs = [(*_loop(ours, app, _Pods(cluster, namespace)), hand.loop()) for _ in range(RUNS)]
            return [
                _row(f"an edit until {PODS} pods run it: `up` with an Image", [(a, c) for a, _, c in pairs]),
                _row("the same until that `up` has looked a second time", [(b, c) for _, b, c in pairs]),
            ]
        finally:
            ours.symphony("delete", "ours.loop", "-y")
            hand.end()


def _edit(app: Path) -> None:
    (app / "code" / "main.txt").write_text(f"{next(_EDITS)}\n")


def _loop(ours: Project, app: Path, pods: _Pods) -> tuple[float, float]:
    """Until the pods run what was edited, and until `up` has ended."""
    _edit(app)
    began = time.perf_counter()
    with pods.watched():
        whole = ours.symphony("up", "ours.loop", "-y")
    return pods.running - began, whole


def _row(what: str, pairs: list[tuple[float, float]]) -> Row:
    return Row(
        what,
        ours=statistics.median(a for a, _ in pairs),
        other=statistics.median(b for _, b in pairs),
        ratio=statistics.median(a / b for a, b in pairs),
        goal=2,
        against="docker build, push, kubectl rollout",
    )


class _Pods:
    """When the pods of ours run."""

    def __init__(self, cluster: Access, namespace: str) -> None:
        printed = '{.metadata.name} {.metadata.uid} {.status.phase}{"\\n"}'
        words = ["get", "pods", "--watch", "-o", f"jsonpath={printed}"]
        self._argv = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "-n", namespace, *words]
        self.running = 0.0

    @contextmanager
    def watched(self) -> Generator[None]:
        """In the block; `running` is the last time at which a pod was first seen to run."""
        with subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True) as kubectl:
            reader = threading.Thread(target=self._read, args=[kubectl])
            reader.start()
            try:
                yield
            finally:
                kubectl.terminate()
                reader.join()

    def _read(self, kubectl: subprocess.Popen[str]) -> None:
        seen: set[str] = set()
        for line in kubectl.stdout or ():
            if line.endswith(" Running\n") and line not in seen:
                seen.add(line)
                self.running = time.perf_counter()


class _Hand:
    """The same with a Deployment."""

    def __init__(self, cluster: Access, app: Path, repository: str, namespace: str) -> None:
        self._kubectl = [cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", "-n", namespace]
        self._app, self._repository, self._namespace = app, repository, namespace
        self._count = itertools.count()

    def begin(self) -> None:
        self._run(*self._kubectl, "create", "namespace", self._namespace)
        words = ["deployment", "hand", f"--image={self._pushed()}", f"--replicas={PODS}"]
        self._run(*self._kubectl, "create", *words)
        spec = {"template": {"spec": {"terminationGracePeriodSeconds": 0}}}
        patch = yaml.safe_dump({"spec": spec})
        self._run(*self._kubectl, "patch", "deployment", "hand", "-p", patch)
        self._wait()

    def loop(self) -> float:
        _edit(self._app)
        began = time.perf_counter()
        self._run(*self._kubectl, "set", "image", "deployment/hand", f"*={self._pushed()}")
        self._wait()
        return time.perf_counter() - began

    def end(self) -> None:
        self._run(*self._kubectl, "delete", "namespace", self._namespace, "--wait=false")
        for number in range(next(self._count)):
            Engine().remove(f"{self._repository}:{number}", force=True)

    def _pushed(self) -> str:
        image = f"{self._repository}:{next(self._count)}"
        self._run("env", "DOCKER_BUILDKIT=0", "docker", "build", "-q", "-t", image, str(self._app))
        self._run("docker", "push", "-q", image)
        return image

    def _wait(self) -> None:
        self._run(*self._kubectl, "rollout", "status", "deployment/hand", "--timeout=240s")

    def _run(self, *argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True, timeout=DEADLINE)
