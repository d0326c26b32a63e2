"""The rows of Slurm: steps beside those of a plain batch script, and the supervisor of many."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.sandbox import Sandbox, sandbox_in, wait_for
from toolchain.slurm.cluster import NODES, Slurm

RUNS = 3
DEADLINE = 600.0
FEW, MANY = 100, 400
# Memory for the job on each node: 400 srun need some GB on the first, for symphony and for the script.
MEMORY = "--mem=16000M"
# Seconds for which the supervisor is watched.
LOOK = 20.0
PROGRAM = """
with Experiment() as experiment:
    for number in range({count}):
        experiment.new_process(f"p-{{number}}", command="sleep", args=[100000 + (number == {edited})])
"""
# The same steps on the same nodes; each writes a line when it has begun.
SCRIPT = """#!/bin/sh
for number in $(seq {count}); do
    srun --overlap --exact -N1 -n1 -c1 --mem=0 -w "n$((number % {nodes} + 1))" -o "{folder}/$number" \\
        sh -c 'echo begins; exec sleep 100000' &
done
wait
"""


@dataclass(frozen=True)
class Sides:
    """The stack `bench` of a sandbox, and a batch script beside it."""

    sandbox: Sandbox
    environment: Mapping[str, str]

    def up(self, count: int, edited: int = -1) -> float:
        self.sandbox.write(PROGRAM.format(count=count, edited=edited))
        seconds = self.sandbox.symphony("up", "bench", "-y", timeout=DEADLINE).seconds
        states = [status["state"] for status in self.sandbox.processes("bench").values()]
        assert states == ["running"] * count
        return seconds

    def delete(self) -> None:
        self.sandbox.symphony("delete", "bench", "-y", timeout=DEADLINE)

    def submit(self, count: int) -> tuple[str, float]:
        """Submit the script; return its job, and the seconds until all its steps run."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "script")
            script.write_text(SCRIPT.format(count=count, nodes=len(NODES), folder=folder))
            began = time.perf_counter()
            options = (f"--nodes={len(NODES)}", "--ntasks-per-node=1", "--output=/dev/null", MEMORY)
            job = self._ask("sbatch", "--parsable", *options, str(script)).strip()
            files = [Path(folder, str(number)) for number in range(1, count + 1)]
            wait_for(lambda: all(map(_has_begun, files)), DEADLINE, "all steps run", pause=0.1)
            return job, time.perf_counter() - began

    def cancel(self, job: str) -> None:
        self._ask("scancel", job)
        wait_for(lambda: not self._ask("squeue", "-h", "-j", job), DEADLINE, "the job is over", pause=0.1)

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout


def rows(slurm: Slurm) -> Iterator[tuple[str, float, float, str]]:
    """Yield the rows: name, figure, goal and their unit."""
    with tempfile.TemporaryDirectory() as place, sandbox_in(Path(place)) as sandbox:
        settings = {
            "backend": "slurm",
            "nodes": str(len(NODES)),
            "grace": "1",
            "sbatchOptions": f'["{MEMORY}"]',
        }
        sandbox.config("bench", slurmConf=str(slurm.configuration), **settings)
        sides = Sides(sandbox, {**os.environ, "SLURM_CONF": str(slurm.configuration)})
        starts: dict[int, list[float]] = {FEW: [], MANY: []}
        edits: list[float] = []
        used: list[float] = []
        for _ in range(RUNS):
            for count, ratios in starts.items():
                job, theirs = sides.submit(count)
                began = time.perf_counter()
                sides.cancel(job)
                cancelled = time.perf_counter() - began
                ratios.append(sides.up(count) / theirs)
                if count == FEW:
                    edits.append(sides.up(count, edited=0) / (cancelled + theirs))
                else:
                    used.append(_used_by_supervisor())
                sides.delete()
        for count, ratios in starts.items():
            name = f"`up` of {count} steps on Slurm until all run, beside `sbatch` of `srun &`"
            yield name, statistics.median(ratios), 1.5, "x"
        name = f"`up` of an edit of one of {FEW} steps, beside `scancel` and `sbatch`"
        yield name, statistics.median(edits), 1, "x"
        yield f"processor time of the supervisor of {MANY} steps", statistics.median(used), 2, "%"


def _has_begun(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def _used_by_supervisor() -> float:
    (supervisor,) = (
        process
        for process in psutil.process_iter(["cmdline"])
        if "symphony_slurm.supervisor" in (process.info["cmdline"] or ())
    )
    # By then the supervisor has finished starting the steps.
    time.sleep(5)
    before, began = supervisor.cpu_times(), time.monotonic()
    time.sleep(LOOK)
    after = supervisor.cpu_times()
    seconds = after.user + after.system - before.user - before.system
    return 100 * seconds / (time.monotonic() - began)
