"""Several commands at once on one experiment: they take turns, and what is said last holds."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

from tests.chaos.trial import DEADLINE, STACK, Trial, Try, first_processes

ROUNDS = 2


def races(trial: Trial) -> Iterator[Try]:
    """Two rounds of 2 to 4 commands, after each of which one `up` puts all right; a `delete` ends it."""
    trial.declare(first_processes())
    for turn in range(ROUNDS):
        verbs = trial.random.choices(["up", "up", "delete", "process"], k=trial.random.randint(2, 4))
        ends = _race(trial, verbs)
        last = turn == ROUNDS - 1
        if last:
            trial.run("up", STACK, "-y")
            trial.run("delete", STACK, "-y")
        else:
            trial.run("up", STACK, "-y")
        yield trial.judged(f"at once: {', '.join(verbs)}: exit codes {ends}", deleted=last)


def _race(trial: Trial, verbs: list[str]) -> list[int]:
    began = time.monotonic()
    running: list[subprocess.Popen[str]] = []
    for verb in verbs:
        time.sleep(trial.random.random() * 0.3)
        command = trial.command(verb)
        running.append(trial.sandbox.start(command if verb != "process" else command[:-1]))
    codes: list[int] = []
    for verb, process in zip(verbs, running, strict=True):
        with process:
            try:
                out, err = process.communicate(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"{verb} did not end within {DEADLINE} s beside {verbs}") from None
            assert "Traceback" not in out + err, out + err
            assert process.returncode == 0 or len(err.splitlines()) == 1, f"{verb}: {out}{err}"
            codes.append(process.returncode)
    trial.longest = max(trial.longest, time.monotonic() - began)
    return codes
