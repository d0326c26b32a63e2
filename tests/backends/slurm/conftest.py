"""A sandbox whose stack `rl` runs on the Slurm of the tests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.sandbox import Sandbox, sandbox_in, wait_for
from toolchain.slurm.cluster import Slurm
from toolchain.slurm.fixtures import slurm

__all__ = ["slurm"]


@dataclass(frozen=True)
class Lab:
    """A project on the Slurm cluster, with access to Slurm's own programs."""

    sandbox: Sandbox
    slurm: Slurm

    def ask(self, *words: str) -> str:
        """Return what a program of Slurm prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.slurm.configuration)}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    def jobs(self) -> list[str]:
        """Return the jobs of this sandbox that run or wait."""
        lines = [line.split("|") for line in self.ask("squeue", "-h", "-o", "%i|%Z|%T").splitlines()]
        return [number for number, folder, _ in lines if folder.startswith(f"{self.sandbox.home.parent}/")]

    @contextmanager
    def foreign_job(self, *options: str) -> Iterator[str]:
        """Submit a job that is not of symphony and sleeps; cancel it afterwards."""
        words = ("sbatch", "--parsable", *options, "--wrap=sleep 300", "--output=/dev/null")
        number = self.ask(*words).strip()
        try:
            yield number
        finally:
            self.ask("scancel", number)

    def why(self, path: str) -> list[dict[str, Any]]:
        return self.sandbox.symphony("why", "rl", path, "--json").json["links"]

    def becomes(self, path: str, state: str, seconds: float = 40) -> dict[str, Any]:
        """Wait until a process is in a state, and return its status."""

        def there() -> dict[str, Any] | None:
            status = self.sandbox.processes("rl").get(path)
            return status if status and status["state"] == state else None

        return wait_for(there, seconds, f"{path} is {state}", pause=0.5)

    def begin_now(self, job: str) -> None:
        """Start a requeued job when no step of its last run is left; Slurm would wait two minutes."""
        titles = tuple(f"slurmstepd: [{int(job) + component}." for component in range(3))
        wait_for(
            lambda: (
                not any(
                    " ".join(process.info["cmdline"] or ()).startswith(titles)
                    for process in psutil.process_iter(["cmdline"])
                )
            ),
            60,
            "the steps of the last run have ended",
        )
        self.ask("scontrol", "update", f"jobid={job}", "starttime=now")

    def lines(self) -> list[dict[str, Any]]:
        """Return the output of all processes."""
        out = self.sandbox.symphony("logs", "rl", "*", "--json").out
        return [json.loads(line) for line in out.splitlines()]

    def supervisor(self) -> psutil.Process:
        """Return the supervisor in the job."""
        (found,) = (
            process
            for process in psutil.process_iter(["cmdline"])
            if (words := process.info["cmdline"] or [])[2:4] == ["-m", "symphony_slurm.supervisor"]
            and words[4].startswith(f"{self.sandbox.home}/")
        )
        return found

    def addresses(self) -> dict[str, Any]:
        """Return the addresses of the services, as the nodes published them."""
        (file,) = (self.sandbox.home / "slurm").glob("rl-*/services.json")
        return json.loads(file.read_text())


@pytest.fixture
def lab(tmp_path: Path, slurm: Slurm) -> Iterator[Lab]:
    with sandbox_in(tmp_path) as sandbox:
        settings = {"backend": "slurm", "grace": "1", "nodes": "2", "slurmConf": str(slurm.configuration)}
        sandbox.config("rl", **settings)
        found = Lab(sandbox, slurm)
        try:
            yield found
        finally:
            sandbox.symphony("delete", "rl", "-y", code=None)
            if jobs := found.jobs():
                found.ask("scancel", *jobs)
        assert list((sandbox.home / "slurm").glob("*")) == []
