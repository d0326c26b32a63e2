"""The one-machine cluster: `up` starts what is missing, and `down` refuses while tests use it."""

import subprocess
import sys

import psutil
import pytest

from tests.sandbox import wait_for
from toolchain.kubernetes import cluster as one_machine
from toolchain.kubernetes import daemons
from toolchain.kubernetes.fixtures import Access
from toolchain.kubernetes.layout import NODE_ADDRESS, Layout

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def own(cluster: Access) -> Layout:
    """Return the cluster of this machine; skip against another one."""
    if not cluster.registry:
        pytest.skip("SYMPHONY_TEST_KUBECONFIG names another cluster")
    return Layout.default()


def test_up_restarts_only_what_is_missing(own: Layout):
    killed, kept = (daemons.running(own, name) for name in ("kube-scheduler", "kube-apiserver"))
    assert killed
    assert kept
    killed.kill()
    # The machine's first process reaps it, in its own time.
    wait_for(lambda: daemons.running(own, "kube-scheduler") is None, 10, "it is gone")
    assert "kube-scheduler" in one_machine.status(own).stopped
    assert "kube-scheduler" in one_machine.up(own, say=lambda text: None).running
    assert daemons.running(own, "kube-apiserver") == kept


def test_the_cluster_is_closed_to_other_users_and_machines(own: Layout):
    pids = {process.pid for process in daemons.of_cluster(own.folder)}
    listening = [
        each for each in psutil.net_connections("inet") if each.status == "LISTEN" and each.pid in pids
    ]
    assert listening
    assert {each.laddr.ip for each in listening if each.laddr} <= {"127.0.0.1", "::1", NODE_ADDRESS}
    for path in (own.folder, own.path("certificates"), own.path("kubeconfigs")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_down_refuses_while_tests_use_the_cluster(own: Layout):
    command = [sys.executable, "-m", "toolchain.kubernetes", "down"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "tests are using this cluster" in done.stderr
    assert one_machine.status(own).ready
