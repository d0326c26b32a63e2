"""The kubeconfig of an experiment on a GkeCluster, from the outputs of the cluster's stack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from symphony.engine import workspace
from symphony.engine.workspace import Workspace
from symphony.errors import SymphonyError
from symphony.operations import cluster


@pytest.mark.parametrize(
    ("said", "is_gone"),
    [
        ("error: no stack named 'gke' found", True),
        ("error: current stack does not have output property 'kubeconfig'", True),
        ("error: getting secrets manager: incorrect passphrase", False),
    ],
    ids=["no stack", "no cluster", "passphrase"],
)
def test_only_a_missing_cluster_is_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_gone: bool
) -> None:
    """`delete` takes the pods on a missing cluster for deleted."""
    failed = subprocess.CompletedProcess([], 255, "", said)
    monkeypatch.setattr(workspace, "pulumi", lambda *_: failed)
    with pytest.raises(SymphonyError) as error:
        cluster.with_kubeconfig({"symphony:cluster": "gke"}, Workspace(tmp_path, "lab", tmp_path))
    assert isinstance(error.value, cluster.ClusterNotUp) is is_gone
