"""A second cluster starts and ends in its own network namespace, and leaves the machine unchanged."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.toolchain.network_namespace import Elsewhere
from toolchain.kubernetes import daemons, machine
from toolchain.kubernetes.layout import Layout

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(400)]

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "it"},
    "spec": {
        "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            {
                "name": "c",
                "image": "localhost:5000/symphony/busybox:1",
                "command": ["sh", "-c", "sleep 1000 & wait"],
                "volumeMounts": [{"name": "memory", "mountPath": "/memory"}],
            }
        ],
    },
}


def machine_state(elsewhere: Elsewhere, folder: Path) -> dict[str, object]:
    """Return everything that a cluster could leave on the machine."""
    rules = [elsewhere.run(f"{family}-save") for family in ("iptables", "ip6tables")]
    group = machine.cgroup(Layout(folder))
    settings = {name: machine.PROC / name for name in machine.SETTINGS}
    return {
        "processes": [process.pid for process in daemons.of_cluster(folder)],
        "mounts": [
            line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line
        ],
        "links": sorted(link["ifname"] for link in json.loads(elsewhere.run("ip", "-json", "link"))),
        "rules": [line for text in rules for line in text.splitlines() if line.startswith("-A")],
        "chains": [
            line for text in rules for line in text.splitlines() if "KUBE-" in line or "DOCKER" in line
        ],
        "settings": {name: path.read_text() for name, path in settings.items() if path.exists()},
        # Walked, not globbed: groups of other clusters' pods go meanwhile.
        "groups": [place for place, _, _ in os.walk(machine.CGROUPS) if place.endswith(group)],
    }


def test_the_cluster_is_ready_within_30_s_and_down_leaves_nothing(elsewhere: Elsewhere, folder: Path):
    before = machine_state(elsewhere, folder)
    command = (sys.executable, "-m", "toolchain.kubernetes")
    began = time.monotonic()
    state = json.loads(elsewhere.run(*command, "up", "--folder", str(folder), "--kwok", "1"))
    taken = [time.monotonic() - began]
    assert state["ready"]
    assert json.loads(elsewhere.run(*command, "up", "--folder", str(folder)))["ready"], "twice is no harm"

    kubectl = (state["kubectl"], f"--kubeconfig={state['kubeconfig']}")
    elsewhere.run(*kubectl, "apply", "-f", "-", stdin=json.dumps(POD))
    elsewhere.run(*kubectl, "wait", "--for=condition=Ready", "pod/it", "--timeout=60s")
    during = machine_state(elsewhere, folder)
    for name in ("processes", "links", "rules", "chains", "groups"):
        assert len(during[name]) > len(before[name]), f"the comparison would see {name}"  # type: ignore[arg-type]
    assert during["mounts"] == [], "mounts live in the node's namespace"

    elsewhere.run(*command, "down", "--folder", str(folder))
    assert machine_state(elsewhere, folder) == before
    if taken[0] > 30:  # Other tests may be at work beside this one.
        began = time.monotonic()
        assert json.loads(elsewhere.run(*command, "up", "--folder", str(folder)))["ready"]
        taken.append(time.monotonic() - began)
    elsewhere.run(*command, "down", "--folder", str(folder), "--purge")
    assert not folder.exists()
    assert min(taken) <= 30, taken
