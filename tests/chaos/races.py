"""Run several commands at once on one experiment: each succeeds, or prints one line of error."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.chaos.trial import STACK, Outcome, Trial

ROUNDS = 2


def races(trial: Trial) -> Iterator[Outcome]:
    """Race 2 to 4 commands, twice; one `up` must repair everything after each race, and `delete` end it."""
    trial.declare()
    for turn in range(ROUNDS):
        verbs = trial.random.choices(["up", "up", "delete", "process"], k=trial.random.randint(2, 4))
        codes = _race(trial, verbs)
        last = turn == ROUNDS - 1
        trial.run("up", STACK, "-y")
        if last:
            trial.run("delete", STACK, "-y")
        yield trial.judge(f"at once: {', '.join(verbs)}: exit codes {codes}", deleted=last)


def _race(trial: Trial, verbs: list[str]) -> list[int]:
    running = []
    for verb in verbs:
        time.sleep(trial.random.random() * 0.3)
        running.append(trial.sandbox.start(trial.command(verb)))
    for verb, process in zip(verbs, running, strict=True):
        with process:
            errors = trial.finish(process, f"{verb} beside {verbs}")
            assert process.returncode == 0 or len(errors.splitlines()) == 1, f"{verb}: {errors}"
    return [process.returncode for process in running]
