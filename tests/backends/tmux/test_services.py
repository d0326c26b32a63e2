"""Services with the real command: environment variables, restarts they cause, inputs in the state."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import Sandbox


def program(*lines: str) -> str:
    """Return a program of processes p0, p1, ... with these calls."""
    made = (
        f'    e.new_process("p{number}", command=["sleep", "3600"]){line}'
        for number, line in enumerate(lines)
    )
    return "\n".join(["with Experiment() as e:", *made])


def windows(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    """Return the inputs of each process in the state."""
    (file,) = (sandbox.home / "state" / ".pulumi" / "stacks").glob("*/rl.json")
    resources = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    return {
        each["inputs"]["path"]: each["inputs"] for each in resources if each["type"].endswith("tmux:Window")
    }


def environment(sandbox: Sandbox, path: str) -> list[str]:
    """Return the environment of a process, not that of its supervisor."""
    for pid in sandbox.trees()[path]:
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep"):
            return Path(f"/proc/{pid}/environ").read_text().split("\0")
    raise AssertionError(path)


@pytest.mark.thorough
def test_every_process_sees_all_services_and_the_state_stores_only_used_ones(sandbox: Sandbox) -> None:
    sandbox.write(program('.binds("a")', '.binds("b")', '.connects("a")', ""))
    sandbox.symphony("up", "rl", "-y")
    services = sandbox.symphony("plan", "rl", "--json").json["plan"]["services"]
    wanted = {f"SYMPH_{each['name'].upper()}_ADDR={each['host']}:{each['port']}" for each in services}
    for path in sandbox.trees():
        shown = sandbox.symphony("exec", "rl", path.removeprefix("rl/"), "--", "env").out.splitlines()
        for variables in (environment(sandbox, path), shown):
            assert {each for each in variables if "_ADDR=" in each} == wanted
    stored = {path: sorted(inputs.get("services", {})) for path, inputs in windows(sandbox).items()}
    used = ["SYMPH_A_ADDR", "SYMPH_A_HOST", "SYMPH_A_PORT"]
    assert stored["p2"] == used
    assert stored["p3"] == []
    assert all(len(names) <= 4 for names in stored.values())


@pytest.mark.thorough
def test_moving_a_service_to_another_process_restarts_both(sandbox: Sandbox) -> None:
    """The address stays. Only the process that now binds the service gets its bind variable."""
    sandbox.write(program('.binds("a")', "", '.connects("a")', ""))
    sandbox.symphony("up", "rl", "-y")
    before = sandbox.trees()
    sandbox.write(program("", '.binds("a")', '.connects("a")', ""))
    output = sandbox.symphony("up", "rl", "-y").out
    assert re.search(r"p0 +restart +port of a: \d+ -> nothing", output)
    assert re.search(r"p1 +restart +port of a: nothing -> \d+", output)
    after = sandbox.trees()
    assert {path for path in after if after[path] == before[path]} == {"rl/p2", "rl/p3"}
    for path, binds in {"rl/p0": False, "rl/p1": True}.items():
        assert ("SYMPH_A_BIND=127.0.0.1" in environment(sandbox, path)) is binds


@pytest.mark.thorough
def test_a_new_service_or_changed_port_restarts_only_processes_that_use_it(sandbox: Sandbox) -> None:
    sandbox.write(program('.binds({"a": 23470})', '.connects("a")', '.binds("b")', ""))
    sandbox.symphony("up", "rl", "-y")
    before = sandbox.trees()
    sandbox.write(program('.binds({"a": 23470})', '.connects("a")', '.binds("b")', "", '.binds("c")'))
    sandbox.symphony("up", "rl", "-y")
    assert {path: pids for path, pids in sandbox.trees().items() if path != "rl/p4"} == before
    sandbox.write(program('.binds({"a": 23471})', '.connects("a")', '.binds("b")', "", '.binds("c")'))
    seen = sandbox.pulumi("preview", "-s", "rl", "--diff").out
    assert "SYMPH_A_PORT" in seen
    sandbox.symphony("up", "rl", "-y")
    after = sandbox.trees()
    assert {path for path in before if after[path] == before[path]} == {"rl/p2", "rl/p3"}
