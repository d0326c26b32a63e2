"""The cluster and a sandbox whose stacks run on it."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import Sandbox, sandbox_in
from toolchain.kubernetes.fixtures import Access, cluster, kubectl
from toolchain.plugins import install

__all__ = ["cluster", "kubectl"]


@pytest.fixture(scope="session")
def own(cluster: Access) -> Access:
    """The one-machine cluster, whose nodes, images and users the test may change."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster than the one of this machine")
    return cluster


@pytest.fixture
def live(kubectl: Callable[..., str]) -> Callable[[str, str], list[dict[str, Any]]]:
    """Return the objects of one kind in a namespace."""

    def get(kind: str, namespace: str) -> list[dict[str, Any]]:
        output = kubectl("-n", namespace, "get", kind, "-o", "json", ok=False)
        return json.loads(output)["items"] if output else []

    return get


@pytest.fixture
def applied(kubectl: Callable[..., str]) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Apply objects outside of namespaces, and remove them afterwards."""
    manifests: list[dict[str, Any]] = []

    def apply(manifest: dict[str, Any]) -> None:
        manifests.append(manifest)
        kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    yield apply
    for manifest in reversed(manifests):
        kubectl("delete", manifest["kind"], manifest["metadata"]["name"], "--ignore-not-found")


@pytest.fixture(scope="module")
def sandbox(cluster: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox of the test file; its processes are known by their environment."""
    place: Path = tmp_path_factory.mktemp("k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_HOME", str(place / "pulumi-home"))
        install()
    with sandbox_in(place, "kube") as sandbox:
        yield sandbox


@pytest.fixture
def stack(sandbox: Sandbox, cluster: Access, kubectl: Callable[..., str]) -> Iterator[str]:
    """A configured stack; its experiment is deleted after the test."""
    with configured(sandbox, cluster, kubectl) as name:
        yield name


@pytest.fixture
def place(sandbox: Sandbox, stack: str, kubectl: Callable[..., str]) -> Iterator[str]:
    """A namespace that an administrator made, in which the stack runs."""
    name = f"{stack}-place"
    kubectl("create", "namespace", name)
    kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    sandbox.config(stack, namespace=name, createNamespace="false")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@contextlib.contextmanager
def configured(sandbox: Sandbox, cluster: Access, kubectl: Callable[..., str]) -> Iterator[str]:
    """Configure a stack, and delete its experiment at the end of the block."""
    name = f"kt-{uuid.uuid4().hex[:8]}"
    sandbox.config(
        name,
        backend="kubernetes",
        image=cluster.shell_image,
        grace="1",
        patience="5",
        **{"kubernetes:kubeconfig": cluster.kubeconfig},
    )
    yield name
    kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")
