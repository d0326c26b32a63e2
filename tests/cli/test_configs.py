"""`configs=[files]` on tmux: all processes read the same copies, a change restarts nothing."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox, wait_for

PROGRAM = """
with Experiment(configs=["train.yaml", "table.bin"]) as e:
    e.new_process("a", command=["sh", "-c", "cd $SYMPH_CONFIGS_DIR; ls; cat train.yaml; sleep 3600"])
"""


@pytest.mark.thorough
def test_config_files_reach_every_process_and_changes_restart_nothing(sandbox: Sandbox) -> None:
    (sandbox.folder / "train.yaml").write_text("lr: 0.1\n")
    (sandbox.folder / "table.bin").write_bytes(b"\xff\x00\xfe")
    sandbox.write(PROGRAM)
    sandbox.symphony("up", "rl", "-y")
    wait_for(lambda: "lr: 0.1" in sandbox.symphony("logs", "rl").out, 10, "it has read them")
    assert sandbox.symphony("logs", "rl").out.split() == ["table.bin", "train.yaml", "lr:", "0.1"]
    before = sandbox.trees()
    copied = sandbox.home / "experiments" / "rl" / "configs" / "train.yaml"
    assert copied.stat().st_mode & 0o077 == 0
    (sandbox.folder / "train.yaml").write_text("lr: 0.2\n")
    sandbox.symphony("up", "rl", "-y")
    assert sandbox.trees() == before
    assert copied.read_text() == "lr: 0.2\n"
    sandbox.symphony("delete", "rl", "-y")
    assert not copied.exists()
