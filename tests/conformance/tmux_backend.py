"""tmux as a backend of the conformance suite: processes by pid and start time, windows by tmux itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.conformance.backend import Backend
from tests.sandbox import wait_for


class TmuxBackend(Backend):
    name = "tmux"

    def settings(self, stack: str) -> Mapping[str, str]:
        return {"grace": "2"}

    def identities(self, stack: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, pids in self.sandbox.trees().items():
            owner, _, path = name.partition("/")
            if owner == stack:
                # The top of a tree is the one whose parent is not in it.
                tops = [each for each in map(_process, pids) if each and each.ppid() not in pids]
                found[path] = [f"{each.pid} {each.create_time()}" for each in tops]
        return {path: tops for path, tops in found.items() if tops}

    def begun(self, stack: str) -> int:
        return len(self.identities(stack))

    def shares_fate(self, path: str, paths: set[str]) -> set[str]:
        return {path} & paths

    def kill(self, stack: str, path: str, number: signal.Signals) -> None:
        top = int(self.identities(stack)[path][0].split()[0])
        program = next(iter(psutil.Process(top).children()), psutil.Process(top))
        program.send_signal(number)

    def lose(self, stack: str, path: str) -> None:
        top = self.identities(stack)[path][0].split()[0]
        panes = self.tmux("list-panes", "-a", "-F", "#{pane_pid} #{window_id}").split("\n")
        window = next(line.split()[1] for line in panes if line.startswith(f"{top} "))
        self.tmux("kill-window", "-t", window)
        wait_for(lambda: path not in self.identities(stack), 10, f"{path} is gone")

    def vanish(self, stack: str) -> None:
        self.tmux("kill-server")
        wait_for(lambda: not self.identities(stack), 10, "all of it is gone")

    def leftovers(self, stack: str) -> list[str]:
        trees = [f"process {name}" for name in self.sandbox.trees() if name.startswith(f"{stack}/")]
        files = [str(file) for file in (self.sandbox.home / "experiments").glob("*")]
        servers = [f"tmux server {pid}" for pid in self.sandbox.servers()] if not files and not trees else []
        return [*trees, *[file for file in files if Path(file).name == stack.replace(".", "-")], *servers]

    def arguments(self) -> str:
        found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        return "\n".join(" ".join(words) for words in found)

    def disguises(self, secret: str) -> list[str]:
        return [secret]

    def forget(self, stack: str) -> None:
        """The sandbox ends what is left by itself."""

    def tmux(self, *words: str) -> str:
        socket = self.sandbox.home / "tmux" / "default.sock"
        done = subprocess.run(
            ["tmux", "-S", str(socket), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()


def _process(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        os.fspath(process.name())
    except psutil.Error:
        return None
    return process
