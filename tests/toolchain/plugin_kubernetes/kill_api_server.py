"""Kills the API server again and again under random operations, then compares; a test runs it elsewhere.

Usage: python -m tests.toolchain.plugin_kubernetes.kill_api_server FOLDER KILLS
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.toolchain.plugin_kubernetes.plugin_client import Plugin
from tests.toolchain.plugin_kubernetes.test_random import LANES, Lane
from toolchain.kubernetes import cluster, daemons
from toolchain.kubernetes.layout import Layout


def main() -> None:
    layout, kills = Layout(Path(sys.argv[1])), int(sys.argv[2])
    state = cluster.up(layout, say=lambda text: None)
    with contextlib.closing(Plugin()) as plugin:
        plugin.configure(kubeconfig=state.kubeconfig, namespace="default")
        lanes, steps = _disturb(layout, plugin, kills)
    listed = json.loads(_kubectl(state))["items"]
    result = {(each["kind"], each["metadata"]["name"]): each["metadata"]["uid"] for each in listed}
    kept = {key: entry[2]["metadata"]["uid"] for lane in lanes for key, entry in lane.state.items()}
    sys.stdout.write(json.dumps({"steps": steps, "objects": len(result), "equal": result == kept}))


def _disturb(layout: Layout, plugin: Plugin, kills: int) -> tuple[list[Lane], int]:
    """Operations on all lanes while the server is killed and started: the lanes, and how many steps."""
    # Foreground deletion waits for a controller that gets no rest here to begin its work.
    lanes = [Lane(plugin, number, policy="background") for number in range(LANES)]
    over = threading.Event()
    with ThreadPoolExecutor(LANES) as pool:
        working = [pool.submit(_work, lane, over) for lane in lanes]
        try:
            for _ in range(kills):
                time.sleep(1)
                _kill(layout)
                cluster.up(layout, say=lambda text: None)
        finally:
            over.set()
        return lanes, sum(each.result() for each in working)


def _work(lane: Lane, over: threading.Event) -> int:
    steps = 0
    while not over.is_set():
        lane.run(1)
        steps += 1
    return steps


def _kill(layout: Layout) -> None:
    server = daemons.running(layout, "kube-apiserver")
    if server:
        server.kill()


def _kubectl(state: cluster.Status) -> str:
    argv = [state.kubectl, f"--kubeconfig={state.kubeconfig}", "get", "configmap,service,pod"]
    done = subprocess.run(
        [*argv, "-l", "test=random", "-o", "json"], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
