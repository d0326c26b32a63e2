"""The engine is killed in the first `up` before it writes its state: `delete` still finds the objects."""

from __future__ import annotations

import psutil
import pytest

from tests.backends.kubernetes.test_runs import Live
from tests.sandbox import SYMPHONY, Sandbox, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.thorough, pytest.mark.timeout(300)]
# A program of the dispatcher's that makes experiments only: such a run keeps no checkpoints.
PROGRAM = """
with Experiment() as e:
    for i in range(40):
        e.new_process(f"p-{i}", command=["sleep", "999"]).binds(f"s-{i}")
"""


def test_delete_removes_objects_of_a_killed_first_up(sandbox: Sandbox, stack: str, live: Live) -> None:
    (sandbox.folder / "stacks").mkdir()
    (sandbox.folder / "__main__.py").write_text("from symphony import run_program\nrun_program('stacks')\n")
    sandbox.write(PROGRAM, f"stacks/{stack}.py")
    process = sandbox.start([str(SYMPHONY), "up", stack, "-y"], start_new_session=True)
    wait_for(lambda: live("services", stack), 60, "something is made", pause=0.05)
    engine = next(each for each in psutil.Process(process.pid).children() if each.name() == "pulumi")
    engine.kill()
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert live("services", stack), "the test came too late or the cluster too early"
    output = sandbox.symphony("delete", stack, "-y", timeout=120)
    assert "Deleted" in output.out, output
    assert live("services", stack) == live("pods", stack) == []
    assert sandbox.engines() == []
