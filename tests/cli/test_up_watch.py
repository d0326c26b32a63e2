"""`symphony up --watch` applies saved changes, reports broken edits, and on Ctrl-C keeps all running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import Sandbox, sandbox_in, wait_for

pytestmark = pytest.mark.thorough

PROGRAM = """
from settings import SECONDS
with Experiment("rl") as e:
    e.new_process("learner", command=["sleep", SECONDS])
    e.new_process("agent", command=["sleep", "3600"], code=["agents/"])
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with sandbox_in(tmp_path) as made:
        (made.folder / "agents").mkdir()
        (made.folder / "agents" / "net.py").write_text("first")
        (made.folder / "settings.py").write_text("SECONDS = '3600'\n")
        made.write(PROGRAM)
        yield made


def test_watch_applies_each_saved_change(sandbox: Sandbox, tmp_path: Path) -> None:
    output = tmp_path / "output"

    def shows(text: str) -> None:
        wait_for(lambda: text in output.read_text(), 40, text)

    with output.open("w") as file:
        command = [str(sandbox.program), "up", "rl", "-y", "--watch"]
        run = sandbox.start(command, stdout=file, stderr=subprocess.STDOUT)
        shows("Watching")
        first = sandbox.trees()
        (sandbox.folder / "agents" / "new.py").write_text("second")
        shows("agent    restart  code: agents/new.py")
        shows("1 to restart, 1 unchanged.")
        shows("rl is up")
        (sandbox.folder / "settings.py").write_text("SECONDS = \n")
        shows("settings.py changed")
        shows("invalid syntax")
        (sandbox.folder / "settings.py").write_text("SECONDS = '3601'\n")
        shows("sleep 3600 -> 3601")
        wait_for(lambda: output.read_text().count("rl is up") == 3, 40, "it is up again")
        last = sandbox.trees()
        os.kill(sandbox.processes("rl")["learner"]["pid"], signal.SIGKILL)
        shows("symphony why rl learner")
        assert "learner   failed" in output.read_text()
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 130
    shows("Stopped watching rl; it keeps running")
    assert set(last) == set(first) == {"rl/learner", "rl/agent"}
    assert not {*last["rl/agent"]} & {*first["rl/agent"]}
    assert sandbox.engines() == []
