"""CPU and memory of processes: of the whole process tree in tmux, from the metrics API on Kubernetes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from symphony.backends.kubernetes import observe
from symphony.backends.observe import Recorded, Usage
from symphony.backends.tmux.usage import usage
from symphony.cli.process import WIDE
from symphony.operations.process import percent, size
from tests.backends.kubernetes.scripted_api import MISSING, Answer, Asked, serving
from tests.sandbox import Sandbox, wait_for

# A supervisor whose shell starts two programs, and a third program whose parent shell has ended.
_TREE = f"""
import subprocess, sys, time
hungry = "x = bytearray(60 << 20); import time; print('up', flush=True); time.sleep(60)"
subprocess.Popen(["sh", "-c", '{sys.executable} -c "$0" & {sys.executable} -c "$0"; :', hungry])
subprocess.Popen(["sh", "-c", '{sys.executable} -c "$0" &', hungry]).wait()
time.sleep(60)
"""
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/rl/pods"


def test_memory_covers_the_whole_tree_without_the_supervisor() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TREE], stdout=subprocess.PIPE, start_new_session=True
    ) as root:
        try:
            assert root.stdout is not None
            # Three programs report that they are up.
            assert len(root.stdout.read(9)) == 9
            measured = usage({"a": root.pid, "gone": 1 << 22})
        finally:
            os.killpg(root.pid, 9)
    assert set(measured) == {"a"}
    assert 180 << 20 < (measured["a"].memory or 0) < 300 << 20
    assert (measured["a"].cpu_time or 0) > 0


def test_cpu_time_includes_ended_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    program = f"import subprocess,sys,time; subprocess.run([sys.executable,'-c',{burn!r}]); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as root:
        try:
            wait_for(lambda: (usage({"a": root.pid})["a"].cpu_time or 0) >= 0.5, 20, "the child has ended")
        finally:
            os.killpg(root.pid, 9)


@pytest.mark.parametrize("answer", ["there", "missing", "forbidden"])
def test_usage_of_pods_comes_from_the_metrics_api(answer: str, tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "agents-x7f", "labels": {"symphony/pod": "agents"}},
        "containers": [{"name": "a-0", "usage": {"cpu": "1250m", "memory": "3Mi"}}, {"name": "other"}],
    }

    def api(asked: Asked) -> Answer:
        if answer == "there" and asked.path.partition("?")[0] == METRICS:
            return 200, {"items": [pod]}
        return MISSING if answer == "missing" else (403, {"reason": "Forbidden", "message": "no"})

    with serving(api) as server:
        (tmp_path / "config").write_text(server.kubeconfig())
        facts: dict[str, Any] = {
            path: {"pod_name": "agents", "container_name": path.rpartition("/")[2]}
            for path in ("agents/a-0", "agents/a-1")
        }
        connection = {"kubeconfig": str(tmp_path / "config"), "context": "c"}
        measured = observe.usage(Recorded("lab/rl", "rl", facts, connection=connection))
    assert measured == ({"agents/a-0": Usage(cpu=1.25, memory=3 << 20)} if answer == "there" else {})


@pytest.mark.thorough
def test_process_wide_shows_usage(sandbox: Sandbox) -> None:
    sandbox.write(
        "with Experiment() as e:\n"
        ' e.new_process("busy", cmds=["while :; do :; done"])\n'
        ' e.new_process("done", command=["true"])'
    )
    began = time.time()
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: sandbox.processes("rl")["done"]["state"] == "completed", 20, "one has completed")
    head, busy, done = sandbox.symphony("process", "rl", "-o", "wide").out.splitlines()
    assert tuple(head.split()) == WIDE
    assert busy.split()[2:5] != ["-", "-", "-"]
    assert done.split()[3:7] == ["-", "-", "-", "-"]
    rows = {row["path"]: row for row in sandbox.symphony("process", "rl", "-o", "wide", "--json").json}
    assert 0 < rows["busy"]["cpu"] < 2
    assert rows["busy"]["memory"] > 100_000
    assert rows["busy"]["node"]
    assert rows["busy"]["since"] >= began - 1
    assert rows["done"]["cpu"] is None
    sandbox.symphony("delete", "rl", "-y")


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (999, "999"), (3 << 20, "3.0M"), (999 << 20, "999M"), (9e12, "8.2T")],
)
def test_sizes_are_shown_with_units(number: float | None, text: str) -> None:
    assert size(number) == text


def test_cores_are_shown_in_percent() -> None:
    assert (percent(None), percent(0.984), percent(2.5)) == ("-", "98%", "250%")
