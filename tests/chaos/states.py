"""Truncate the state file between two commands: symphony restores the engine's own copy."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.trial import STACK, Outcome, Trial

CUTS = 5
COMMANDS = (*[("process", STACK), ("ls",)] * 2, ("plan", STACK), ("up", STACK, "-y"))


def states(trial: Trial) -> Iterator[Outcome]:
    """Truncate it five times, with one command after each; no process may be affected."""
    trial.declare()
    trial.run("up", STACK, "-y")
    before = trial.pids()
    file = trial.sandbox.home / "state" / ".pulumi" / "stacks" / trial.sandbox.project / f"{STACK}.json"
    for _ in range(CUTS):
        state = file.read_bytes()
        kept = trial.random.randrange(len(state))
        file.write_bytes(state[:kept])
        # An `up` that changes nothing writes the state again; reading commands must not.
        command = trial.random.choice(COMMANDS)
        ran = trial.run(*command)
        outcome = trial.judge(f"{kept} of {len(state)} bytes of the state left, then {command[0]}")
        if command[0] != "up" and file.read_bytes() != state:
            outcome.failures.append(f"the state is not what it was: {ran}")
        if trial.pids() != before:
            outcome.failures.append("processes were started again")
        yield outcome
    trial.run("delete", STACK, "-y")
    end = trial.judge("delete", deleted=True)
    assert end.survived, str(end)
