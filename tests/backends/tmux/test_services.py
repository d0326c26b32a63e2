"""Services with the real command: the restarts that their changes cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sandbox import Sandbox


def program(*lines: str) -> str:
    """Return a program of processes p0, p1, ... with these calls."""
    made = (
        f'    e.new_process("p{number}", command=["sleep", "3600"]){line}'
        for number, line in enumerate(lines)
    )
    return "\n".join(["with Experiment() as e:", *made])


def environment(sandbox: Sandbox, path: str) -> list[str]:
    """Return the environment of a process, not that of its supervisor."""
    for pid in sandbox.trees()[path]:
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"):
            return Path(f"/proc/{pid}/environ").read_text().split("\0")
    raise AssertionError(path)


@pytest.mark.thorough
def test_a_service_that_moves_or_changes_its_port_restarts_only_processes_that_use_it(
    sandbox: Sandbox,
) -> None:
    sandbox.write(program('.binds({"a": 23470})', "", '.connects("a")', '.binds("b")'))
    sandbox.symphony("up", "rl", "-y")
    before = sandbox.trees()
    sandbox.write(program("", '.binds({"a": 23470})', '.connects("a")', '.binds("b")'))
    output = sandbox.symphony("up", "rl", "-y").out
    assert re.search(r"p0 +restart +port of a: 23470 -> nothing", output)
    assert re.search(r"p1 +restart +port of a: nothing -> 23470", output)
    moved = sandbox.trees()
    assert {path for path in moved if moved[path] == before[path]} == {"rl/p2", "rl/p3"}
    for path, binds in {"rl/p0": False, "rl/p1": True}.items():
        assert ("SYMPH_A_BIND=127.0.0.1" in environment(sandbox, path)) is binds

    sandbox.write(program("", '.binds({"a": 23471})', '.connects("a")', '.binds("b")'))
    assert "SYMPH_A_PORT" in sandbox.pulumi("preview", "-s", "rl", "--diff").out
    sandbox.symphony("up", "rl", "-y")
    after = sandbox.trees()
    assert {path for path in after if after[path] == moved[path]} == {"rl/p0", "rl/p3"}
