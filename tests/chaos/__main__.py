"""Disturb experiments at random moments, and count the disturbances they survive.

make chaos                            for an hour
make chaos-short                      for three minutes; both draw new seeds at every start
make chaos KIND='kill engine' SEED=7  repeat one of them
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from tests.chaos import disks, races
from tests.chaos.kills import GENTLE, VICTIMS, kills
from tests.chaos.trial import Outcome, Trial, new_trial

KINDS: dict[str, Callable[[Trial], Iterator[Outcome]]] = {
    **{f"kill {victim}": partial(kills, victim=victim) for victim in VICTIMS},
    "interrupt command line": partial(kills, victim="command line", signals=GENTLE),
    "race": races.races,
    "full disk": disks.disks,
}


def main() -> int:
    options = _options()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    kinds = options.kind or random.Random(seed).sample(list(KINDS), len(KINDS))
    deadline = time.monotonic() + 60 * options.minutes
    tried: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for number, kind in enumerate(itertools.cycle(kinds)):
        if time.monotonic() > deadline or (number and options.seed is not None):
            break
        for outcome in _outcomes(kind, seed + number):
            tried[kind] += 1
            survived[kind] += outcome.survived
            print(f"{kind}, seed {seed + number}: {outcome}", flush=True)
    for kind in sorted(tried):
        print(f"{kind}: {survived[kind]} of {tried[kind]} survived")
    return 0 if survived == tried else 1


def _outcomes(kind: str, seed: int) -> Iterator[Outcome]:
    with new_trial(kind, seed) as trial:
        try:
            yield from KINDS[kind](trial)
        except AssertionError as error:
            yield Outcome("a promise was broken", failures=[str(error)[:2000]])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--short", action="store_const", dest="minutes", const=3.0, help="--minutes 3")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--seed", type=int, help="one trial with this seed; needs --kind")
    parser.set_defaults(minutes=60.0)
    options = parser.parse_args()
    if options.seed is not None and len(options.kind or ()) != 1:
        parser.error("--seed needs one --kind")
    return options


if __name__ == "__main__":
    sys.exit(main())
