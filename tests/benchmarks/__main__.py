"""Print the figures that a change of symphony must not make worse: `make bench`.

Each is the median of three runs on an idle machine; caraml's figures are `python -m tests.benchmarks.caraml`.
The exit code is 0 only if every goal is reached.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from symphony.cli.live import Live
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.build import build_plan
from symphony.spec.experiment import ExperimentSpec
from symphony.spec.process import ProcessSpec, ServiceUse
from tests.benchmarks.slurm import rows as slurm_rows
from tests.cli.top_views import Scripted, view
from tests.sandbox import Sandbox, sandbox_in
from toolchain.kubernetes import cluster
from toolchain.kubernetes.fixtures import Access, in_use
from toolchain.kubernetes.layout import Layout
from toolchain.plugins import install
from toolchain.slurm import cluster as slurm_cluster
from toolchain.slurm.cluster import Slurm
from toolchain.slurm.fixtures import in_use as slurm_in_use

RUNS = 3
DEADLINE = 600.0
PODS = 300
PROGRAM = """
with Experiment() as experiment:
    for number in range({count}):
        experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
"""
# The pods are on simulated nodes: the benchmark measures symphony and the API server.
POD_PROGRAM = f"""
with Experiment() as experiment:
    for number in range({PODS}):
        process = experiment.new_process(f"p-{{number}}", command="sleep", args=[100000])
        process.binds(f"s-{{number}}")
        process.node_selector("type", "kwok")
        process.add_toleration(key="kwok.x-k8s.io/node", operator="Exists")
"""
# A row: its name, the figure, the goal and their unit.
Row = tuple[str, float, float, str]


def main() -> int:
    print("| | measured | goal |\n|---|---|---|")
    missed = 0
    for name, figure, goal, unit in _rows():
        missed += figure > goal
        print(f"| {name} | {figure:.3g} {unit} | {goal:g} {unit} |", flush=True)
    return 1 if missed else 0


def _rows() -> Iterator[Row]:
    yield "plan of 1,000 processes, in memory", _median(_plan), 0.3, "s"
    yield "processor time of `top` to show 1,000 changed processes", _median(_refresh), 0.3, "s"
    with tempfile.TemporaryDirectory() as place, sandbox_in(Path(place)) as sandbox:
        yield "`up` of 100 processes", _median(lambda: _up_once(sandbox, 100)), 4, "s"
        yield "`up` of 1,000 processes", _median(lambda: _up_once(sandbox, 1000)), 60, "s"
        _up(sandbox, 3)
        yield "`ls`, in tmux", _median(lambda: _symphony(sandbox, "ls")), 0.25, "s"
        _symphony(sandbox, "delete", "bench", "-y")
    if reason := slurm_cluster.impossible():
        sys.stderr.write(f"The rows of Slurm are left out: {reason}\n")
    else:
        with slurm_in_use(Slurm.default()) as slurm:
            yield from slurm_rows(slurm)
    if reason := cluster.impossible():
        sys.stderr.write(f"The rows of pods are left out: {reason}\n")
        return
    with in_use(Layout.default()) as access:
        yield from _pod_rows(access)


def _pod_rows(access: Access) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place, sandbox_in(Path(place)) as sandbox:
        os.environ["PULUMI_HOME"] = sandbox.environment["PULUMI_HOME"]
        install()
        sandbox.write(POD_PROGRAM)
        ratios: list[float] = []
        listings: list[float] = []
        for _ in range(RUNS):
            _configure(sandbox, access)
            ours = _symphony(sandbox, "up", "bench", "-y")
            listings.append(_symphony(sandbox, "process", "bench"))
            _symphony(sandbox, "delete", "bench", "-y")
            ratios.append(ours / _applied(sandbox, access))
        name = f"`up` of {PODS} pods until all run, beside `kubectl apply --server-side`"
        yield name, statistics.median(ratios), 2, "x"
        yield f"`process` of {PODS} pods", statistics.median(listings), 0.5, "s"


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(RUNS))


def _plan() -> float:
    service = ServiceUse("data")
    workers = (ProcessSpec(f"w-{n}", command=("sleep",), connects=(service,)) for n in range(999))
    spec = ExperimentSpec("big", (ProcessSpec("server", command=("sleep",), binds=(service,)), *workers))
    limits = BackendLimits(
        backend="tmux",
        physical_name="big",
        starts="command",
        supports=frozenset({"command", "args"}),
        one_host=True,
        host_of="127.0.0.1",
        bind_host="127.0.0.1",
        ports={"data": 20000},
    )
    began = time.perf_counter()
    build_plan(spec, limits)
    return time.perf_counter() - began


def _refresh() -> float:
    """Return the seconds of processor time to show other figures of all processes, none folded."""

    async def refresh() -> float:
        app = Live(Scripted(view(1000)), period=60)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("f")
            await pilot.pause(0.5)
            changed = view(1000)
            rows = (replace(row, used=msgspec.structs.replace(row.used, cpu=0.5)) for row in changed.rows)
            began = time.process_time()
            app.show(replace(changed, rows=tuple(rows)))
            await pilot.pause()
            return time.process_time() - began

    return asyncio.run(refresh())


def _up_once(sandbox: Sandbox, count: int) -> float:
    seconds = _up(sandbox, count)
    assert len(sandbox.processes("bench")) == count
    _symphony(sandbox, "delete", "bench", "-y")
    return seconds


def _up(sandbox: Sandbox, count: int) -> float:
    sandbox.write(PROGRAM.format(count=count))
    return _symphony(sandbox, "up", "bench", "-y")


def _symphony(sandbox: Sandbox, *words: str) -> float:
    return sandbox.symphony(*words, timeout=DEADLINE).seconds


def _configure(sandbox: Sandbox, access: Access) -> str:
    """Put the stack in a new namespace of the cluster; return its name."""
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    sandbox.config("bench", backend="kubernetes", image=access.shell_image, grace="0", namespace=namespace)
    sandbox.config("bench", **{"kubernetes:kubeconfig": access.kubeconfig})
    return namespace


def _applied(sandbox: Sandbox, access: Access) -> float:
    """Return the seconds that kubectl takes for the same manifests, in a namespace that is deleted again."""
    namespace = _configure(sandbox, access)
    manifests = sandbox.folder / "manifests.yaml"
    manifests.write_text(sandbox.symphony("plan", "bench", "--yaml").out)
    kubectl = [access.kubectl, f"--kubeconfig={access.kubeconfig}"]
    began = time.perf_counter()
    _call([*kubectl, "apply", "--server-side", "-f", str(manifests)])
    seconds = time.perf_counter() - began
    _call([*kubectl, "delete", "namespace", namespace])
    return seconds


def _call(argv: list[str]) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=DEADLINE)


if __name__ == "__main__":
    sys.exit(main())
