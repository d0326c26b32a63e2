"""Run every kind of hostile process beside one that only sleeps; `delete` ends all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.chaos import hostile_process
from tests.chaos.trial import STACK, Outcome, Trial, within

KINDS = list(hostile_process.KINDS)
GOOD = "good"


def hostile(trial: Trial) -> Iterator[Outcome]:
    """Check that the good process runs on, that commands work and that `delete` ends all hostile ones."""
    kinds = trial.random.sample(KINDS, len(KINDS))
    _write(trial, kinds)
    trial.run("up", STACK, "-y", code=None)
    within(5, lambda: len(trial.pids()) > len(kinds) // 2)
    time.sleep(1.5)
    good = trial.pids().get(_argument(trial, GOOD))
    for command in (("process", STACK), ("logs", STACK, GOOD), ("ls",)):
        trial.run(*command)
    trial.run("up", STACK, "-y", code=None)
    still = trial.pids().get(_argument(trial, GOOD))
    trial.run("delete", STACK, "-y")
    within(10, lambda: not trial.tagged())
    left = list(trial.tagged().values())
    end = trial.judge("delete", deleted=True)
    for kind in kinds:
        orphans = left.count(_argument(trial, kind))
        yield Outcome(kind, orphans, lost=int(not good or still != good), failures=end.failures)


def _argument(trial: Trial, kind: str) -> str:
    return f"{86400 + [GOOD, *KINDS].index(kind)}.{trial.tag}"


def _write(trial: Trial, kinds: list[str]) -> None:
    lines = ["with Experiment() as e:"]
    lines.append(f'    e.new_process("{GOOD}", command=["sleep", "{_argument(trial, GOOD)}"])')
    for kind in kinds:
        argument = _argument(trial, kind)
        command = [sys.executable, hostile_process.__file__, kind, argument, str(trial.sandbox.home)]
        lines.append(f'    e.new_process("{kind}", command={command})')
    trial.sandbox.write("\n".join(lines))
