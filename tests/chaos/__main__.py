"""Disturbs experiments in every way there is and counts what survives.

make chaos                            an hour of it; adds to what earlier calls tried and writes RESULTS.md
make chaos-short                      three minutes of it with seeds of its own; writes nothing
make chaos KIND='kill engine' SEED=7  the same again
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.chaos import clocks, disks, hostile, races, report, states, strangers
from tests.chaos.kills import GENTLE, VICTIMS, kills
from tests.chaos.trial import DEADLINE, Trial, Try, trial

# How many tries of a thousand each kind gets.
KINDS: dict[str, tuple[Callable[[Trial], Iterator[Try]], int]] = {
    **{f"kill {victim}": (partial(kills, victim=victim), 30) for victim in VICTIMS},
    "interrupt command line": (partial(kills, victim="command line", numbers=GENTLE), 30),
    "race": (races.races, 30),
    "state truncated": (states.states, 200),
    "full disk": (disks.disks, 30),
    "clock step": (clocks.clocks, 50),
    "hostile process": (hostile.hostile, 180),
    "another user": (strangers.strangers, 100),
}
THOUSAND = sum(share for _, share in KINDS.values())


def main() -> int:
    options = _options()
    tries = [] if options.short or options.seed is not None else report.kept()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    until = time.monotonic() + options.minutes * 60
    kinds = options.kind or random.Random(seed).sample(list(KINDS), len(KINDS))
    while time.monotonic() < until and (kind := _next(kinds, tries, options.tries)):
        for result in _tries(kind, seed):
            tries.append(result)
            print(_line(result), flush=True)
            if not options.short:
                report.keep(result)
        if options.seed is not None:
            break
        seed += 1
    print("\n".join(report.table(tries)))
    if not options.short and options.seed is None:
        # Others may have tried other kinds meanwhile.
        report.write(report.kept(), DEADLINE)
    return int(not all(each.survived for each in tries))


def _next(kinds: list[str], tries: list[Try], wanted: int) -> str:
    """The kind that is furthest behind its share; none when all have theirs."""
    had = {kind: sum(each.kind == kind for each in tries) for kind in kinds}
    behind = {kind: had[kind] / KINDS[kind][1] for kind in kinds}
    kind = min(behind, key=lambda each: behind[each])
    return kind if behind[kind] < wanted / THOUSAND else ""


def _tries(kind: str, seed: int) -> Iterator[Try]:
    with trial(kind, seed) as made:
        try:
            yield from KINDS[kind][0](made)
        except AssertionError as error:
            yield made.broken("a promise was broken", error)


def _line(value: Try) -> str:
    verdict = "survived" if value.survived else f"BROKEN {value.row()}"
    return f"{value.kind}, seed {value.seed}: {value.what}: {verdict}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--seed", type=int, help="one trial with this seed; needs --kind")
    parser.add_argument("--short", action="store_true", help="keep nothing")
    options = parser.parse_args()
    if options.seed is not None and len(options.kind or ()) != 1:
        parser.error("--seed needs one --kind")
    return options


if __name__ == "__main__":
    sys.exit(main())
