"""A private home for every test, a rig over the CRUD functions, and the check for leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import libtmux
import pytest

from symphony_tmux import experiment_folder
from symphony_tmux.processes import observe, process_table
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import sessions, windows
from symphony_tmux.tmux import client
from tests.sandbox import tmux_in

# Owners of concurrent tests must differ, as those of two state backends do.
STORE = f"{os.getpid():08x}"
OWNER = f"proj/rl#{STORE}"


class Rig:
    """One experiment, created and changed as Pulumi would: each call takes a new snapshot."""

    def __init__(self, home: Path, owner: str = OWNER, name: str = "rl") -> None:
        self.home, self.owner, self.name = home, owner, name
        self.session_outputs: dict[str, Any] = {}

    def session_inputs(self, *processes: str, **more: Any) -> dict[str, Any]:
        base = {"name": self.name, "owner": self.owner, "server": "default", "grace": 1.0}
        return {**base, "processes": sorted(processes), **more}

    def inputs(self, path: str, *argv: str, **more: Any) -> dict[str, Any]:
        base = {"session": self.name, "server": "default", "owner": self.owner, "path": path, "grace": 1.0}
        return {**base, "cwd": str(self.home), **({"argv": list(argv)} if argv else {}), **more}

    def session(self, *processes: str, **more: Any) -> dict[str, Any]:
        self.session_outputs = sessions.create(self.session_inputs(*processes, **more), Snapshot())[1]
        return self.session_outputs

    def start(self, path: str, *argv: str, **more: Any) -> dict[str, Any]:
        return windows.create(self.inputs(path, *argv, **more), Snapshot())[1]

    def script(self, path: str, *lines: str, **more: Any) -> dict[str, Any]:
        return windows.create(self.inputs(path, script=list(lines), **more), Snapshot())[1]

    def condition(self, outputs: dict[str, Any]) -> observe.Condition:
        return observe.condition(outputs, Snapshot().listing("default"))

    def ended(self, outputs: dict[str, Any], seconds: float = 30) -> observe.Condition:
        self.until(lambda: self.condition(outputs).state != "running", seconds)
        return self.condition(outputs)

    def printed(self, outputs: dict[str, Any]) -> bytes:
        return Path(outputs["log"]).read_bytes()

    def until(self, true: Callable[[], object], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.02)

    def living(self) -> list[process_table.Process]:
        return [process for process in process_table.scan() if process.marker.startswith(self.owner + "/")]

    @property
    def tmux(self) -> libtmux.Server:
        """Return the tmux server through libtmux, not through symphony's client."""
        return tmux_in(self.home)

    def pane(self, outputs: dict[str, Any]) -> libtmux.Pane:
        return next(pane for pane in self.tmux.panes if pane.pane_id == outputs["pane_id"])

    def screen(self, outputs: dict[str, Any]) -> str:
        """Return the text that a user reads in the window."""
        return "\n".join(self.pane(outputs).capture_pane(join_wrapped=True))


def _processes_of(folder: Path, before: Container[object]) -> list[process_table.Process]:
    """Return the new processes that use this folder."""
    return [
        process
        for process in process_table.scan()
        if process.identity not in before and _belongs_to(process.pid, folder)
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """SYMPHONY_HOME with characters that no shell and no tmux format may touch."""
    folder = tmp_path / "it's #(x) %h"
    folder.mkdir()
    monkeypatch.setenv("SYMPHONY_HOME", str(folder))
    for name in ("TMUX", "SYMPHONY_ID"):
        monkeypatch.delenv(name, raising=False)
    before = {process.identity for process in process_table.scan()}
    yield folder
    left = _end_servers(folder)
    for key in list(experiment_folder._locks):
        os.close(experiment_folder._locks.pop(key))
    # Processes started by tmux itself, such as the recorder of a log, may just be ending.
    deadline = time.monotonic() + 5
    while (survivors := _processes_of(folder, before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    described = [
        Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ")[:200] for process in survivors
    ]
    for process in survivors:
        os.kill(process.pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"marked processes outlived the test: {left}"
    assert not survivors, f"processes of the home outlived the test: {described}"


@pytest.fixture
def rig(home: Path) -> Iterator[Rig]:
    made = Rig(home)
    yield made
    if made.session_outputs:
        sessions.delete(made.session_outputs, Snapshot())


def _end_servers(folder: Path) -> list[str]:
    """End the tmux servers of the home; return the markers of the processes that outlive them."""
    for socket in (folder / "tmux").glob("*.sock"):
        server_pid = client.list_panes(socket.stem).server_pid
        if server_pid:
            client.run(socket.stem, ["kill-server"])
    deadline = time.monotonic() + 3
    while (
        left := [
            process.marker
            for process in process_table.scan()
            if process.marker and _belongs_to(process.pid, folder)
        ]
    ) and (time.monotonic() < deadline):
        time.sleep(0.05)
    return left


def _belongs_to(pid: int, folder: Path) -> bool:
    """Return whether another process runs in the home, or has it in its environment."""
    try:
        if Path(f"/proc/{pid}/cwd").readlink().is_relative_to(folder):
            return pid != os.getpid()
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes() and pid != os.getpid()
    except OSError:
        return False
