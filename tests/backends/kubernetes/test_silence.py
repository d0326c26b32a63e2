"""F68: an API server that swallows everything; commands say so within 30 s, in one line."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.backends.kubernetes.relay import silenced
from tests.backends.kubernetes.test_runs import becomes, up
from tests.desk import SYMPHONY, Desk, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(400)]
DEADLINE = 30
PROGRAM = """
with Experiment("e") as e:
    a = e.new_process("a", command="sh", args=["-c", "echo begun; exec sleep 1000"])
    a.exposes({"web": 8080})
"""


def ended(began: float, running: dict[str, subprocess.Popen[str]]) -> dict[str, str]:
    """What each command said when it ended, and that it did so in time."""
    said: dict[str, str] = {}
    late: list[str] = []
    for name, process in running.items():
        try:
            out, err = process.communicate(timeout=max(1.0, began + 60 - time.monotonic()))
            said[name] = out + err
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said[name] = "never ended"
        if time.monotonic() - began > DEADLINE:
            late.append(name)
    assert not late, {name: said[name] for name in late}
    return said


def test_f68_every_command_ends_in_time(desk: Desk, stack: str, cluster: Cluster, tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(4 << 30)

    def start(*words: str) -> subprocess.Popen[str]:
        return desk.start([str(SYMPHONY), *words])

    with silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence):
        desk.config(stack, **{"kubernetes:kubeconfig": kubeconfig})
        up(desk, stack, PROGRAM, code=0)
        becomes(desk, stack, "a", "running")
        inside = {
            "logs -f": start("logs", stack, "-f"),
            "exec": start("exec", stack, "a", "--", "sh", "-c", "echo begun; sleep 100"),
            "scp": start("scp", stack, str(huge), "a:/tmp/huge"),
        }
        for name in ("logs -f", "exec"):
            stdout = inside[name].stdout
            assert stdout is not None
            while "begun" not in stdout.readline():
                pass
        look = ["exec", stack, "a", "--", "sh", "-c", "ls -A /tmp"]
        wait_for(lambda: ".symphony" in desk.symphony(*look).out, 30, "the copy has begun")
        silence.set()
        began = time.monotonic()
        said = ended(began, inside)
        for name, process in inside.items():
            assert process.returncode == 1, (name, said[name])
            assert len(said[name].splitlines()) == 1, said[name]

        began = time.monotonic()
        said = ended(
            began,
            {
                "ls": start("ls"),
                "process": start("process", stack),
                "why": start("why", stack, "a"),
                "logs": start("logs", stack),
                "logs -f": start("logs", stack, "-f"),
                "exec": start("exec", stack, "a", "--", "true"),
                "scp": start("scp", stack, "a:/tmp", str(tmp_path / "new")),
                "visit": start("visit", stack, "-u"),
            },
        )
        for name, text in said.items():
            assert "answer" in text or name == "ls", (name, text)
            assert len(text.splitlines()) == 1 or name in ("ls", "process", "why"), (name, text)
        for words in (("plan", stack), ("up", stack, "-y"), ("delete", stack, "-y")):
            began = time.monotonic()
            said = ended(began, {words[0]: start(*words)})
            assert "answer" in said[words[0]], said
        desk.config(stack, **{"kubernetes:kubeconfig": cluster.kubeconfig})
