"""Another user connects to every listener that appears while experiments start, change and end.

The tests run in a network namespace, where they disturb no other process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox import SYMPHONY, Sandbox, sandbox_in, wait_for
from tests.security.conftest import PROGRAM, UID

_HOLDER = """
import sys
from symphony.engine.run import start
start.enter()
print(1, flush=True)
sys.stdin.read()
"""
EXPERIMENT = """
with Experiment() as e:
    e.new_process("a", command=["sleep", "%d"]).binds("x")
    e.new_process("b", command=["sleep", "3600"]).connects("x")
"""


class Machine:
    """A network namespace with a sandbox and another user who waits for listeners."""

    def __init__(self, sandbox: Sandbox, network: int, place: Path) -> None:
        self.sandbox, self.place = sandbox, place
        self._within = ["nsenter", f"--net=/proc/{network}/ns/net"]

    def symphony(self, *words: str, code: int | None = 0, **environment: str) -> str:
        done = subprocess.run(
            [*self._within, str(SYMPHONY), *words],
            cwd=self.sandbox.folder,
            env={**self.sandbox.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def stranger(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._within, sys.executable, str(PROGRAM), str(UID), str(self.place)])

    def answers(self) -> dict[tuple[str, str], str]:
        """Return the answers by port and RPC."""
        rows = [line.split() for line in (self.place / f"answers-{UID}").read_text().splitlines()]
        return {(row[0], row[1]): row[2] for row in rows}


@pytest.fixture
def machine(tmp_path: Path, place: Path) -> Iterator[Machine]:
    with (
        subprocess.Popen(
            [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder,
        sandbox_in(tmp_path) as sandbox,
    ):
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"1\n"
        made = Machine(sandbox, holder.pid, place)
        with made.stranger() as stranger:
            try:
                wait_for((place / "ready").exists, 60, "the stranger is ready")
                yield made
            finally:
                (place / "stop").touch()
            assert stranger.wait(30) == 0
        holder.stdin.close()


def _life(machine: Machine, number: int) -> str:
    machine.sandbox.write(EXPERIMENT % (1000 + 2 * number))
    output = machine.symphony("up", "dev", "-y") + machine.symphony("drift", "dev")
    machine.sandbox.write(EXPERIMENT % (1001 + 2 * number))
    return output + machine.symphony("up", "dev", "-y") + machine.symphony("delete", "dev", "-y")


@pytest.mark.parametrize(
    "lives", [1, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])], ids=["once", "often"]
)
def test_no_call_of_another_user_has_any_effect(machine: Machine, lives: int) -> None:
    result = "".join(_life(machine, number) for number in range(lives))
    assert "stranger" not in result
    # `pulumi stack init` and `stack rm` listen for traces for a moment, and know none of these calls.
    assert set(machine.answers().values()) <= {"UNIMPLEMENTED", "UNAVAILABLE"}
    assert not [each for each in machine.place.iterdir() if each.name.startswith(("ran", "unpickled"))]


@pytest.mark.thorough
def test_the_other_user_succeeds_on_unprotected_engine_ports(machine: Machine) -> None:
    """In the machine's network the engine obeys other users, as SECURITY.md says: the test can detect it."""
    machine.sandbox.write(EXPERIMENT % 1000)
    machine.symphony("up", "dev", "-y", code=None, SYMPHONY_NETWORK="host")
    answered = {rpc for (_, rpc), code in machine.answers().items() if code == "OK"}
    assert "Log" in answered
    # No language host is started, and the program and our provider refuse.
    assert not {"RunPlugin", "Check", "Create"} & answered
    machine.symphony("delete", "dev", "-y", code=None, SYMPHONY_NETWORK="host")
