"""Cuts the file of a state off between two commands: the engine's last copy is put in its place."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.chaos.trial import STACK, Trial, Try, first_processes

TRIES = 25
COMMANDS = (*[("process", STACK), ("ls",)] * 4, ("plan", STACK), ("up", STACK, "-y"))


def states(trial: Trial) -> Iterator[Try]:
    """25 cuts, each followed by one command of any kind; what runs is not touched by any of it."""
    trial.declare(first_processes())
    trial.run("up", STACK, "-y")
    before = trial.pids()
    file = trial.sandbox.home / "state" / ".pulumi" / "stacks" / trial.sandbox.project / f"{STACK}.json"
    for _ in range(TRIES):
        good = file.read_bytes()
        bad, what = _truncated(good, trial.random)
        file.write_bytes(bad)
        # An up that changes nothing writes the state again; reading commands must not.
        command = trial.random.choice(COMMANDS)
        ran = trial.run(*command)
        result = trial.judged(f"{what}, then {command[0]}")
        if command[0] != "up" and file.read_bytes() != good:
            result.lost += 1
            result.broken.append(f"the state is not what it was: {ran}")
        if trial.pids() != before:
            result.broken.append("processes were started again")
        yield result
    trial.run("delete", STACK, "-y")
    assert (end := trial.judged("delete", deleted=True)).survived, str(end)


def _truncated(good: bytes, random: Random) -> tuple[bytes, str]:
    kept = random.randrange(len(good))
    return good[:kept], f"{kept} of {len(good)} bytes left"
