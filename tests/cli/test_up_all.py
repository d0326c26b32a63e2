"""`symphony up PATTERN`: four stacks at a time, output by stack."""

from __future__ import annotations

import pytest

from tests.sandbox import Sandbox

PROGRAM = """
import pulumi
with Experiment() as e:
    e.new_process("p", command="sleep", args=["3600"])
    if pulumi.get_stack() == "sweep-3":
        e.new_process("p", command="sleep")
"""


def create_stacks(sandbox: Sandbox, count: int) -> list[str]:
    names = [f"sweep-{number}" for number in range(count)]
    for name in names:
        sandbox.config(name)
    return names


@pytest.mark.thorough
def test_output_of_several_stacks_does_not_mix_and_one_failure_does_not_stop_others(sandbox: Sandbox) -> None:
    """One of five stacks is refused."""
    sandbox.write(PROGRAM)
    names = create_stacks(sandbox, 5)
    assert "single experiment" in sandbox.symphony("up", "sweep-*", "--watch", code=2).err
    ran = sandbox.symphony("up", "sweep-*", "-y", code=2, timeout=120)
    head, *lines = ran.out.splitlines()
    assert head == "5 experiments, 4 at a time."
    began = [number for number, line in enumerate(lines) if " on tmux " in line]
    blocks = [lines[a:b] for a, b in zip(began, [*began[1:], len(lines)], strict=True)]
    assert sorted(block[0].split()[0] for block in blocks) == [name for name in names if name != "sweep-3"]
    assert all(block[-1].startswith(f"{block[0].split()[0]} is up") for block in blocks)
    assert {len(block) for block in blocks} == {6}
    assert ran.err.startswith("symphony: sweep-3 cannot run: 1 problem")
    assert set(sandbox.trees()) == {f"{name}/p" for name in names if name != "sweep-3"}
    # A deleted stack without a settings file does not match.
    sandbox.symphony("delete", "sweep-4", "-y")
    (sandbox.folder / "Pulumi.sweep-4.yaml").unlink()
    assert 'no stack matches "sweep-4*"' in sandbox.symphony("up", "sweep-4*", "-y", code=2).err
