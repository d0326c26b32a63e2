"""`--json` of commands that change an experiment."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

PROGRAM = """
print("from the program")
with Experiment() as e:
    e.new_process("a", command=["sleep", "3600"])
    e.new_process("b", command=["sleep", "3600"])
"""


@pytest.mark.thorough
def test_json_of_up_restart_switch_and_delete(sandbox: Sandbox) -> None:
    sandbox.write(PROGRAM)
    assert "-y" in sandbox.symphony("up", "rl", "--json", code=2).err
    up = sandbox.symphony("up", "rl", "-y", "--json")
    assert [change["kind"] for change in up.json["changes"]] == ["start", "start"]
    assert {process["state"] for process in up.json["processes"]} == {"running"}
    assert "from the program" in up.err
    (restarted,) = sandbox.symphony("restart", "a", "-y", "--json").json["processes"]
    assert restarted["path"] == "a"
    (pid,) = (each["pid"] for each in sandbox.processes("rl").values() if each["path"] == "a")
    assert sandbox.symphony("why", "a", "--json").json["pid"] == pid
    # The supervisor may not have started the program yet.
    assert restarted["pid"] in (None, pid)
    assert sandbox.symphony("switch", "rl", "--json").json == {"name": "rl", "project": "sandbox"}
    for command in (["delete", "rl"], ["delete-batch", "r*"], ["prune"], ["images", "clean"]):
        assert "-y" in sandbox.symphony(*command, "--json", code=2).err
    would = sandbox.symphony("delete", "rl", "--json", "--dry-run").json
    assert would == {"stack": "rl", "would": "stop 2 processes"}
    assert len(sandbox.symphony("delete-batch", "r*", "--json", "--dry-run").json["would_delete"]) == 1
    (deleted,) = sandbox.symphony("delete-batch", "r*", "-y", "--json").json
    assert (deleted["stack"], deleted["processes"]) == ("rl", 2)
    sandbox.symphony("up", "rl", "-y")
    assert sandbox.symphony("delete", "-y", "--json").json["processes"] == 2
