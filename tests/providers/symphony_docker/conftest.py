"""A project on the cluster: its image is built, pushed to its own repository and run by pods."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from symphony_docker.engine import Engine
from tests.sandbox import Sandbox, sandbox_in
from toolchain.kubernetes import images
from toolchain.kubernetes.fixtures import Access, cluster
from toolchain.plugins import install

__all__ = ["cluster"]
DOCKERFILE = f"""FROM {images.BUSYBOX_IMAGE}
RUN echo made of > /made
COPY app /app
CMD ["sh", "-c", "cat /app/main.txt; sleep 1000"]
"""
PROGRAM = """
from symphony import Image
with Experiment("e", image=Image("rl")) as e:
    e.new_process("a")
    e.new_process("b", image="BUSYBOX", command=["sleep", "1000"])
""".replace("BUSYBOX", images.BUSYBOX_IMAGE)


@dataclass
class Place:
    """A project whose stack `dev` is on the cluster, with a repository of its own."""

    sandbox: Sandbox
    cluster: Access
    namespace: str

    @property
    def repository(self) -> str:
        return f"{self.cluster.registry}/{self.namespace}/rl"

    def write(self, name: str, text: str) -> None:
        file = self.sandbox.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def up(self, code: int = 0, **more: Any) -> str:
        ran = self.sandbox.symphony("up", "dev", "-y", code=code, timeout=120, **more)
        return ran.out + ran.err

    def images(self) -> dict[str, str]:
        """Return "UID IMAGE" of the first container of each pod, by the name of the pod."""
        words = ["-n", self.namespace, "get", "pods", "-o", "json"]
        argv = [self.cluster.kubectl, f"--kubeconfig={self.cluster.kubeconfig}", *words]
        pods = json.loads(subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout)["items"]
        return {
            each["metadata"]["name"]: each["metadata"]["uid"] + " " + each["spec"]["containers"][0]["image"]
            for each in pods
        }


@pytest.fixture
def place(cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names a cluster without a registry to push an image to")
    if cluster.docker_host:
        monkeypatch.setenv("DOCKER_HOST", cluster.docker_host)
    namespace = f"images-{uuid.uuid4().hex[:6]}"
    with sandbox_in(tmp_path) as sandbox:
        monkeypatch.setenv("PULUMI_HOME", sandbox.environment["PULUMI_HOME"])
        install()
        result = Place(sandbox, cluster, namespace)
        sandbox.config(
            "dev",
            backend="kubernetes",
            namespace=namespace,
            registry=f"{cluster.registry}/{namespace}",
            grace="1",
            **{"kubernetes:kubeconfig": cluster.kubeconfig},
        )
        result.write("Dockerfile", DOCKERFILE)
        result.write(".dockerignore", "*.py\nPulumi.yaml\n")
        result.write("app/main.txt", "one\n")
        sandbox.write(PROGRAM)
        try:
            yield result
        finally:
            sandbox.symphony("delete", "dev", "-y", code=None, timeout=120)
            for each in Engine().list_images(own=True):
                for name in each.references:
                    if namespace in name:
                        Engine().remove(name, force=True)


def local_images(place: Place, more: str = "") -> list[str]:
    """Return the images of the project on this machine, or those of a repository with this suffix."""
    return [
        name
        for each in Engine().list_images(own=True)
        for name in each.references
        if name.startswith((f"{place.repository}{more}:", f"{place.repository}{more}/"))
    ]
