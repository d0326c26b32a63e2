"""An API server accepts connections but never answers: commands end within 30 s, most with one line."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.backends.kubernetes.relay import silenced
from tests.sandbox import SYMPHONY, Sandbox, wait_for
from toolchain.kubernetes.fixtures import Access as Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(900)]
DEADLINE = 30
STARTS = 8
PROGRAM = """
with Experiment("e") as e:
    a = e.new_process("a", command="sh", args=["-c", "echo begun; exec sleep 1000"])
    a.exposes({"web": 8080})
"""


def outputs_within(began: float, allowed: float, running: dict[str, subprocess.Popen[str]]) -> dict[str, str]:
    """Return the output of every command, errors included; each must end within the allowed seconds."""
    values: dict[str, str] = {}
    late: list[str] = []
    for name, process in running.items():
        try:
            out, err = process.communicate(timeout=max(1.0, began + 2 * allowed - time.monotonic()))
            values[name] = out + err
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            values[name] = "never ended"
        if time.monotonic() - began > allowed:
            late.append(name)
    assert not late, {name: values[name] for name in late}
    return values


def test_every_command_fails_in_time_when_the_api_server_is_silent(
    sandbox: Sandbox, stack: str, cluster: Cluster, tmp_path: Path, kubectl: Callable[..., str]
) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(4 << 30)
    # One experiment for each changing command, because only one may run at a time on an experiment.
    planned, upped, deleted = stacks = (stack, f"{stack}-up", f"{stack}-delete")

    def start(*words: str) -> subprocess.Popen[str]:
        return sandbox.start([str(SYMPHONY), *words])

    with silenced(cluster.kubeconfig, tmp_path) as (kubeconfig, silence):
        settings = yaml.safe_load((sandbox.folder / f"Pulumi.{stack}.yaml").read_text())["config"]
        for each in stacks:
            sandbox.config(each, **{**settings, "kubernetes:kubeconfig": kubeconfig})
        sandbox.write(PROGRAM)
        for process in [start("up", each, "-y") for each in stacks]:
            assert process.wait(300) == 0
        # A busy machine starts Python slowly, which is not the wait for the server: several start at once.
        allowed = DEADLINE + STARTS * sandbox.symphony("process", stack).seconds
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
        wait_for(lambda: "huge" in sandbox.symphony(*look).out, 60, "the copy has begun")
        silence.set()
        began = time.monotonic()
        looking = {
            "ls": start("ls"),
            "process": start("process", stack),
            "why": start("why", stack, "a"),
            "logs": start("logs", stack),
            "new logs -f": start("logs", stack, "-f"),
            "new exec": start("exec", stack, "a", "--", "true"),
            "new scp": start("scp", stack, "a:/tmp", str(tmp_path / "new")),
            "visit": start("visit", stack, "-u"),
        }
        result = outputs_within(began, allowed, {**inside, **looking})
        for name, process in inside.items():
            assert process.returncode == 1, (name, result[name])
            assert len(result[name].splitlines()) == 1, result[name]
        for name in looking:
            assert "answer" in result[name] or name == "ls", (name, result[name])
            assert len(result[name].splitlines()) == 1 or name in ("ls", "process", "why"), (
                name,
                result[name],
            )

        began = time.monotonic()
        changing = {
            "plan": start("plan", planned),
            "up": start("up", upped, "-y"),
            "delete": start("delete", deleted, "-y"),
        }
        for name, text in outputs_within(began, allowed, changing).items():
            assert "answer" in text, (name, text)
    kubectl("delete", "namespace", *stacks, "--wait=false")
