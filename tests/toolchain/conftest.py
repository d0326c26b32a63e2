"""A namespace for each test of the toolchain, and a way to look into the cluster by kubectl."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.toolchain.network_namespace import Elsewhere
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def kubectl(cluster: Access) -> Kubectl:
    """Return kubectl as administrator; `ok=False` returns its errors too."""

    def call(*words: str, stdin: str | None = None, ok: bool = True, kubeconfig: str = "") -> str:
        argv = [cluster.kubectl, f"--kubeconfig={kubeconfig or cluster.kubeconfig}", *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=90, check=False)
        assert not ok or done.returncode == 0, done.stderr
        return done.stdout if ok else done.stdout + done.stderr

    return call


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """Yield a fresh namespace; its end is not waited for."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def elsewhere(cluster: Access) -> Iterator[Elsewhere]:
    """Yield a network while the first cluster runs: neither removes mount points under the other."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    made = Elsewhere()
    yield made
    made.close()


@pytest.fixture
def folder(elsewhere: Elsewhere) -> Iterator[Path]:
    """A short folder, because pytest's are too long for sockets; also a failed test leaves no cluster."""
    with tempfile.TemporaryDirectory(prefix="symphony-") as made:
        folder = Path(made) / "cluster"
        yield folder
        elsewhere.run(
            sys.executable, "-m", "toolchain.kubernetes", "down", "--folder", str(folder), "--purge"
        )
