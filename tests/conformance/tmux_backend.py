"""tmux as a backend of the conformance suite: windows by tmux itself."""

from __future__ import annotations

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
        next(pane for pane in self.sandbox.tmux().panes if pane.pane_pid == top).window.kill()
        wait_for(lambda: path not in self.identities(stack), 10, f"{path} is gone")

    def vanish(self, stack: str) -> None:
        self.sandbox.tmux().kill()
        wait_for(lambda: not self.identities(stack), 10, "all of it is gone")

    def end_supervisor(self, stack: str) -> None:
        supervisor = self.sandbox.supervisor(stack)
        assert supervisor is not None
        supervisor.kill()
        wait_for(lambda: not supervisor.is_running(), 10, "the supervisor is gone")

    def leftovers(self, stack: str) -> list[str]:
        trees = [f"process {name}" for name in self.sandbox.trees() if name.startswith(f"{stack}/")]
        files = [str(file) for file in (self.sandbox.home / "experiments").glob("*")]
        servers = [f"tmux server {pid}" for pid in self.sandbox.servers()] if not files and not trees else []
        return [*trees, *[file for file in files if Path(file).name == stack.replace(".", "-")], *servers]
