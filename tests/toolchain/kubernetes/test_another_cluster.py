"""Running the tests on an existing cluster (SYMPHONY_TEST_KUBECONFIG)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox import ROOT
from toolchain.kubernetes.fixtures import Access, cluster

__all__ = ["cluster"]
pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
USES_IT = "tests/backends/kubernetes/test_classic.py"
NEEDS_OURS = "tests/backends/kubernetes/cluster/test_role.py"


def test_tests_run_on_an_existing_cluster_and_skip_what_needs_ours(cluster: Access) -> None:
    env = {
        **os.environ,
        "PATH": f"{Path(cluster.kubectl).parent}{os.pathsep}{os.environ['PATH']}",
        "SYMPHONY_TEST_KUBECONFIG": cluster.kubeconfig,
        "SYMPHONY_TEST_IMAGE": cluster.shell_image,
    }
    words = ["-p", "no:cacheprovider", "-rs", "-m", "kubernetes", USES_IT, NEEDS_OURS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(".sss"), done.stdout
    assert "names another cluster than the one of this machine" in done.stdout
