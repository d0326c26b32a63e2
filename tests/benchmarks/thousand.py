"""Rows of one experiment of 1,000 processes: time, memory, and what was lost."""

from __future__ import annotations

import json
import resource
import subprocess

from tests.benchmarks.projects import OURS, SYMPHONY, project
from tests.benchmarks.timing import Row

COUNT = 1000


def rows() -> list[Row]:
    """up, ls, delete of 1,000 processes, once each: they take minutes, not milliseconds."""
    with project(OURS.format(count=COUNT)) as ours:
        up = ours.symphony("up", "ours.big", "-y")
        listed = subprocess.run(
            [SYMPHONY, "process", "ours.big", "--json"],
            cwd=ours.folder,
            env=ours.env,
            capture_output=True,
            check=True,
        )
        running = sum(1 for each in json.loads(listed.stdout) if each["state"] == "running")
        ls = ours.symphony("ls")
        delete = ours.symphony("delete", "ours.big", "-y")
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return [
            Row("up of 1,000 processes", up, goal=120),
            Row("ls beside 1,000 processes", ls, goal=1),
            Row("delete of 1,000 processes", delete, goal=60),
            Row("largest process of these", memory, unit="MB", goal=500),
            Row("lost of 1,000", COUNT - running, unit="", goal=0),
        ]
