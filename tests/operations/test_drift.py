"""The output of `symphony drift` in tmux."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
import yaml

from tests.sandbox import Sandbox, wait_for

PROGRAM = """
with Experiment() as e:
    e.new_process("done", command="true")
    e.new_process("a", command="sleep 600")
    e.new_process("b", command="sleep 600")
"""


@pytest.mark.thorough
def test_drift_lists_failed_and_missing_processes_but_not_completed_ones(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    # Without an activated virtualenv, the python3 on PATH has no symphony.
    (other := tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{sandbox.environment['PATH']}"}
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: sandbox.processes("rl")["done"]["state"] == "completed", 20, "it has completed")
    assert sandbox.symphony("drift", "rl", "--json", env=path).json == []
    pids = {path: row["pid"] for path, row in sandbox.processes("rl").items()}
    psutil.Process(pids["a"]).kill()
    wait_for(lambda: sandbox.processes("rl")["a"]["state"] == "failed", 20, "a has failed")
    sandbox.run(["tmux", "-S", str(sandbox.home / "tmux" / "default.sock"), "kill-window", "-t", "rl:b"])
    rows = sandbox.symphony("drift", "rl", "--json", code=1).json
    assert sorted((row["path"], row["field"], row["lives"].partition(":")[0]) for row in rows) == [
        ("a", "status", "failed"),
        ("b", "", "absent"),
    ]
    # A missing virtualenv stays missing: Pulumi's language host would make one, for minutes.
    file = sandbox.folder / "Pulumi.yaml"
    settings = {
        **yaml.safe_load(file.read_text()),
        "runtime": {"name": "python", "options": {"virtualenv": "gone"}},
    }
    file.write_text(yaml.safe_dump(settings))
    assert "names the virtualenv gone" in sandbox.symphony("drift", "rl", code=2).err
    assert not (sandbox.folder / "gone").exists()
