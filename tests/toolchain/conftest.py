"""A namespace for each test of the toolchain, and a way to look into the cluster without the plugin."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.network_namespace import Elsewhere
from tests.toolchain.plugin_kubernetes.plugin_client import Plugin
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def kubectl(cluster: Access) -> Kubectl:
    """kubectl as administrator; `ok=False` returns what it said of a failure."""

    def call(*words: str, stdin: str | None = None, ok: bool = True, kubeconfig: str = "") -> str:
        argv = [cluster.kubectl, f"--kubeconfig={kubeconfig or cluster.kubeconfig}", *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=90, check=False)
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout if ok else done.stdout + done.stderr

    return call


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A fresh namespace; its end is not waited for."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def live(kubectl: Kubectl, namespace: str) -> Callable[[str, str], dict[str, Any]]:
    """An object of the test's namespace as it is now, {} when there is none."""

    def look(kind: str, name: str) -> dict[str, Any]:
        result = kubectl("-n", namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(result) if result else {}

    return look


@pytest.fixture
def start() -> Iterator[Callable[..., Plugin]]:
    """Start plugins that end with the test."""
    started: list[Plugin] = []

    def begin(**more: Any) -> Plugin:
        started.append(Plugin(**more))
        return started[-1]

    yield begin
    for each in started:
        each.close()


@pytest.fixture
def plugin(cluster: Access, namespace: str, start: Callable[..., Plugin]) -> Plugin:
    """One that puts objects without a namespace into the test's."""
    return start().configure(kubeconfig=cluster.kubeconfig, namespace=namespace)


@pytest.fixture
def elsewhere(cluster: Access) -> Iterator[Elsewhere]:
    """While the first cluster runs, so that neither removes mount points under the other."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    made = Elsewhere()
    yield made
    made.close()


@pytest.fixture
def folder(elsewhere: Elsewhere) -> Iterator[Path]:
    """Short, for pytest's own are too deep for the sockets; a test that fails leaves no cluster either."""
    with tempfile.TemporaryDirectory(prefix="symphony-") as made:
        folder = Path(made) / "cluster"
        yield folder
        elsewhere.run(
            sys.executable, "-m", "toolchain.kubernetes", "down", "--folder", str(folder), "--purge"
        )
