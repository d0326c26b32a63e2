"""A project with two stacks: a GKE cluster and an experiment on it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from symphony.backends.kubernetes import prerequisites
from tests.sandbox import ROOT, Sandbox, sandbox_in
from toolchain.kubernetes.fixtures import Access, cluster, kubectl
from toolchain.plugins import install

__all__ = ["cluster", "kubectl"]

GCLOUD = ROOT / "toolchain" / "plugin_gcp" / "gcloud"


class Google:
    """The nodes and the resources of the fake Google Cloud."""

    def __init__(self, sandbox: Sandbox, kubectl: Callable[..., str]) -> None:
        self.name = f"t{uuid.uuid4().hex[:6]}"
        self._folder = sandbox.home / "gcp-stand-in"
        self._kubectl = kubectl

    def nodes(self) -> list[str]:
        words = ("get", "nodes", "-l", f"symphony.test/gke-cluster={self.name}", "-o", "name")
        return self._kubectl(*words).split()

    def resource_types(self) -> list[str]:
        """Return the types of all resources."""
        types = [json.loads(file.read_text())["type"] for file in self._folder.glob("*.json")]
        return sorted(type_.rpartition(":")[2] for type_ in types)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A project of two programs; `gcloud` of its PATH logs in to the local cluster."""
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    with sandbox_in(tmp_path, "gke") as made:
        (made.folder / "stacks").mkdir()
        made.write("from symphony import run_program\nrun_program('stacks')")
        made.environment["PATH"] = f"{GCLOUD}{os.pathsep}{made.environment['PATH']}"
        made.environment["GOOGLE_OAUTH_ACCESS_TOKEN"] = "of-a-test"
        yield made


@pytest.fixture
def google(sandbox: Sandbox, cluster: Access, kubectl: Callable[..., str]) -> Iterator[Google]:
    """A cluster name for this test; its nodes are removed after the test."""
    install()
    install(prerequisites.GCP)
    made = Google(sandbox, kubectl)
    yield made
    left = made.nodes()
    if left:
        kubectl("delete", *left)


@pytest.fixture
def kubeconfig(cluster: Access) -> Any:
    return yaml.safe_load(Path(cluster.kubeconfig).read_text())
