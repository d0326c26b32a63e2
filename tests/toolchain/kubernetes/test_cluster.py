"""The one-machine cluster: `up` starts what is missing, and `down` waits for tests."""

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


def test_up_again_restarts_nothing(own: Layout):
    first = pids(own, one_machine.up(own, say=lambda text: None))
    again = one_machine.up(own, say=lambda text: None)
    assert again.ready
    assert pids(own, again) == first


def pids(own: Layout, state: one_machine.Status) -> dict[str, int]:
    """Return the process of each program of the cluster; assert that all run."""
    assert state.stopped == []
    result = {name: daemons.running(own, name) for name in state.running}
    return {name: process.pid for name, process in result.items() if process}


def test_up_restarts_a_killed_program_of_the_cluster(own: Layout):
    killed = daemons.running(own, "kube-scheduler")
    assert killed
    killed.kill()
    # The machine's first process reaps it, in its own time.
    wait_for(lambda: daemons.running(own, "kube-scheduler") is None, 10, "it is gone")
    assert "kube-scheduler" in one_machine.status(own).stopped
    assert "kube-scheduler" in one_machine.up(own, say=lambda text: None).running


def test_the_cluster_listens_only_on_loopback_and_its_own_bridge(own: Layout):
    pids = {process.pid for process in daemons.of_cluster(own.folder)}
    listening = [
        each for each in psutil.net_connections("inet") if each.status == "LISTEN" and each.pid in pids
    ]
    assert listening
    assert {each.laddr.ip for each in listening if each.laddr} <= {"127.0.0.1", "::1", NODE_ADDRESS}


def test_keys_are_readable_only_by_their_owner(own: Layout):
    for path in (own.folder, own.path("certificates"), own.path("kubeconfigs")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_down_refuses_while_tests_use_the_cluster(own: Layout):
    command = [sys.executable, "-m", "toolchain.kubernetes", "down"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "tests are using this cluster" in done.stderr
    assert one_machine.status(own).ready
