"""tmux as a backend of the conformance suite: windows by tmux itself."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.local_backend import LocalBackend
from tests.sandbox import wait_for


class TmuxBackend(LocalBackend):
    name = "tmux"

    def settings(self, stack: str) -> Mapping[str, str]:
        return {"grace": "2"}

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

    def tmux(self, *words: str) -> str:
        socket = self.sandbox.home / "tmux" / "default.sock"
        done = subprocess.run(
            ["tmux", "-S", str(socket), *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()
