"""Runs every kind of hostile process beside one that is none; `delete` ends all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.chaos import hostile_process
from tests.chaos.trial import STACK, Trial, Try, within

PROGRAM = hostile_process.__file__
KINDS = list(hostile_process.KINDS)
GOOD = "good"


def hostile(trial: Trial) -> Iterator[Try]:
    """The one that is not hostile runs on, commands work, `delete` ends all: a try for each hostile one."""
    kinds = trial.random.sample(KINDS, len(KINDS))
    _write(trial, kinds)
    trial.run("up", STACK, "-y", code=None)
    within(5, lambda: len(trial.living()) > len(kinds) // 2)
    time.sleep(1.5)
    good = trial.pids().get(_argument(trial, GOOD))
    for command in (("process", STACK), ("logs", STACK, GOOD), ("ls",)):
        trial.run(*command)
    trial.run("up", STACK, "-y", code=None)
    still = trial.pids().get(_argument(trial, GOOD))
    trial.run("delete", STACK, "-y")
    within(10, lambda: not trial.tagged())
    left = trial.tagged()
    end = trial.judged("delete", deleted=True)
    for kind in kinds:
        mine = [pid for pid, argument in left.items() if argument == _argument(trial, kind)]
        result = Try(trial.kind, trial.seed, kind, orphans=len(mine), longest=end.longest, broken=end.broken)
        result.lost = int(not good or still != good)
        yield result


def _argument(trial: Trial, kind: str) -> str:
    return f"{86400 + [GOOD, *KINDS].index(kind)}.{trial.tag}"


def _write(trial: Trial, kinds: list[str]) -> None:
    lines = ["with Experiment() as e:"]
    lines.append(f'    e.new_process("{GOOD}", command=["sleep", "{_argument(trial, GOOD)}"])')
    for kind in kinds:
        command = [sys.executable, PROGRAM, kind, _argument(trial, kind), str(trial.sandbox.home)]
        lines.append(f'    e.new_process("{kind}", command={command})')
    trial.sandbox.write("\n".join(lines))
