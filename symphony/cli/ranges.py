"""Ranges of numbered names: agent-0, agent-1, ... agent-7 are agent-0..7."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

_Thing = TypeVar("_Thing")
_NUMBERED = re.compile(r"(.*?)(\d+)")


def runs(
    things: Sequence[_Thing], name: Callable[[_Thing], str], alike: Callable[[_Thing], Hashable]
) -> Iterator[list[_Thing]]:
    """Yield runs of things that are alike and whose names count up."""
    run: list[_Thing] = []
    for thing in things:
        if run and not (alike(thing) == alike(run[-1]) and _counts_up(name(run[-1]), name(thing))):
            yield run
            run = []
        run.append(thing)
    if run:
        yield run


def shown(names: Sequence[str]) -> str:
    """Return the name of a run."""
    match = _NUMBERED.fullmatch(names[-1])
    return f"{names[0]}..{match[2]}" if match and len(names) > 1 else names[0]


def _counts_up(before: str, name: str) -> bool:
    first, second = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(name)
    return bool(first and second and first[1] == second[1] and int(second[2]) == int(first[2]) + 1)
