"""Slurm as a backend of the conformance suite: its nodes are on this machine, so processes have pids here."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.conformance.local_backend import LocalBackend
from tests.sandbox import Sandbox, wait_for
from toolchain.slurm.cluster import Slurm


class SlurmBackend(LocalBackend):
    name = "slurm"
    patience = 2.0

    def __init__(self, sandbox: Sandbox, slurm: Slurm) -> None:
        super().__init__(sandbox)
        self.slurm = slurm

    def settings(self, stack: str) -> Mapping[str, str]:
        return {"backend": "slurm", "grace": "2", "nodes": "4", "slurmConf": str(self.slurm.configuration)}

    def requested_starts(self, stack: str) -> int:
        return sum(1 for folder in self._folders(stack) for _ in (folder / "wanted").glob("*.json"))

    def kill(self, stack: str, path: str, number: signal.Signals) -> None:
        psutil.Process(int(self.identities(stack)[path][0].split()[0])).send_signal(number)

    def lose(self, stack: str, path: str) -> None:
        """Kill its supervisor on the node, as a failing node does."""
        supervisor = psutil.Process(int(self.identities(stack)[path][0].split()[0])).parent()
        assert supervisor is not None
        supervisor.kill()
        wait_for(lambda: path not in self.identities(stack), 20, f"{path} is gone")

    def vanish(self, stack: str) -> None:
        self._ask("scancel", *self._jobs(stack))
        wait_for(lambda: not self.identities(stack) and not self._jobs(stack), 30, "all of it is gone")

    def end_supervisor(self, stack: str) -> None:
        folders = {str(folder) for folder in self._folders(stack)}
        (supervisor,) = (
            process
            for process in psutil.process_iter(["cmdline"])
            if "symphony_slurm.supervisor" in (words := process.info["cmdline"] or ()) and folders & {*words}
        )
        supervisor.kill()
        wait_for(lambda: not supervisor.is_running(), 10, "the supervisor is gone")

    def leftovers(self, stack: str) -> list[str]:
        trees = [f"process {name}" for name in self.sandbox.trees() if name.startswith(f"{stack}/")]
        return [*trees, *map(str, self._folders(stack)), *(f"job {job}" for job in self._jobs(stack))]

    def forget(self, stack: str) -> None:
        if jobs := self._jobs(stack):
            self._ask("scancel", *jobs)

    def _folders(self, stack: str) -> list[Path]:
        return [*(self.sandbox.home / "slurm").glob(f"{stack.replace('.', '-')}-????????")]

    def _jobs(self, stack: str) -> list[str]:
        """Return the jobs of a stack of this sandbox that run or wait."""
        lines = self._ask("squeue", "-h", "-o", "%i|%Z|%k").splitlines()
        home = f"{self.sandbox.home}/"
        fields = [line.split("|", 2) for line in lines]
        return [
            number for number, folder, owner in fields if folder.startswith(home) and f"/{stack}#" in owner
        ]

    def _ask(self, *words: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.slurm.configuration)}
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=20, check=True
        ).stdout
