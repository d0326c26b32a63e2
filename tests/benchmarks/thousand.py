"""Rows of one experiment of 1,000 processes: time against the engine's own, memory, and what was lost."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.benchmarks.projects import FLOOR, OURS, SYMPHONY, TREE, Project, project
from tests.benchmarks.timing import RUNS, Row

COUNT = 1000


def rows() -> list[Row]:
    """up, ls, delete of 1,000 processes, five times: medians; the most memory and losses of any run."""
    # In a process of its own: the largest child of this one may be a compiler that built the cluster.
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        return own.submit(_rows).result()


def _rows() -> list[Row]:
    with (
        project(OURS.format(count=COUNT)) as ours,
        project(TREE.format(count=COUNT)) as tree,
        project(FLOOR.format(count=COUNT)) as flat,
    ):
        # In turn. The memory is that of ours: the engine's own comes after.
        runs = [_run(ours)]
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        floors = [(tree.cold("t0"), flat.cold("f0"))]
        for number in range(1, RUNS):
            runs.append(_run(ours))
            floors.append((tree.cold(f"t{number}"), flat.cold(f"f{number}")))
    up, ls, delete, lost = zip(*runs, strict=True)
    trees, flats = zip(*floors, strict=True)
    return [
        Row("up of 1,000 processes", statistics.median(up), goal=120),
        _against("engine: that tree of no-ops", up, trees, goal=1.3),
        _against("engine: 1,000 no-ops", up, flats, goal=3),
        Row("ls beside 1,000 processes", statistics.median(ls), goal=1),
        Row("delete of 1,000 processes", statistics.median(delete), goal=60),
        Row("largest process of these", memory, unit="MB", goal=500),
        Row("lost of 1,000", max(lost), unit="", goal=0),
    ]


def _against(what: str, up: tuple[float, ...], other: tuple[float, ...], *, goal: float) -> Row:
    return Row(
        "up of 1,000 processes",
        statistics.median(up),
        statistics.median(other),
        statistics.median(a / b for a, b in zip(up, other, strict=True)),
        goal,
        against=what,
    )


def _run(ours: Project) -> tuple[float, float, float, int]:
    """The seconds of up, ls and delete, and how many did not run in between."""
    up = ours.symphony("up", "ours.big", "-y")
    listed = subprocess.run(
        [SYMPHONY, "process", "ours.big", "--json"],
        cwd=ours.folder,
        env=ours.env,
        capture_output=True,
        check=True,
        timeout=60,
    )
    running = sum(1 for each in json.loads(listed.stdout) if each["state"] == "running")
    ls = ours.symphony("ls")
    return up, ls, ours.symphony("delete", "ours.big", "-y"), COUNT - running
