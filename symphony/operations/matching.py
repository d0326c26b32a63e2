"""Which name a person meant: exactly, then by beginning, end or part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from symphony.errors import UserError
from symphony.plan.names import is_same, listed, near, shown

_T = TypeVar("_T", bound=Hashable)


class AmbiguousError(UserError):
    """Several names match; the command line asks on a terminal, and prints the candidates elsewhere."""

    def __init__(self, kind: str, given: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(
            f"{shown(given)} could be {', '.join(self.candidates)}", remedy=f"Say which {kind} you mean"
        )


def match(given: str, names: Iterable[str], kind: str) -> str:
    """The one name that is meant. UserError: none, with the near one; AmbiguousError: several."""
    known = sorted(names)
    tests = (str.__eq__, is_same, _is_member, str.startswith, str.endswith, str.__contains__)
    for test in tests if given else ():
        result = [name for name in known if test(name, given)]
        if len(result) == 1:
            return result[0]
        if result:
            raise AmbiguousError(kind, given, result)
    meant = [shown(name) for name in near(given, known)]
    there = f"There are: {listed(known)}" if known else "There are none"
    remedy = f"Did you mean {_or(meant)}?" if meant else there
    raise UserError(f"there is no {kind} {shown(given)}", remedy=remedy)


def _is_member(path: str, given: str) -> bool:
    """Whether it is the process of this name in some group."""
    return is_same(path.rpartition("/")[2], given)


def _or(names: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def fuzzy(wanted: Sequence[str], known: Iterable[_T], name: Callable[[_T], str]) -> tuple[list[_T], bool]:
    """What may be meant by one of some names, the likeliest first, and whether that is the name itself."""
    every = sorted(known, key=lambda each: (name(each), str(each)))
    for test in (str.__eq__, is_same):
        for message in wanted:
            if result := [each for each in every if test(name(each), message)]:
                return result, True
    result = [each for message in wanted for each in every if name(each).startswith(message)]
    return list(dict.fromkeys([*result, *(each for each in every if wanted[-1] in name(each))])), False
