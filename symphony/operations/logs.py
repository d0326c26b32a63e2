"""The output of the processes of one experiment, of some or merged."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from symphony.backends.observe import LogLine
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.matching import match
from symphony.plan.names import is_same, listed, shown

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def logs(
    stack: stacks.Stack,
    given: Sequence[str] = (),
    *,
    follow: bool = False,
    since: str | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Lines in the order of time; given names processes (`name`, `group/name`) or groups, none means all."""
    stacks.ensure_same_location(stack)
    if stack.recorded is None:
        raise UserError(f"{stack.shown} has no logs", remedy=f"Start it with `symphony up {stack.shown}`")
    paths = chosen(list(stack.recorded.processes), given)
    # kubectl says 0 for all of them.
    moment = time.time() - ago if since and (ago := seconds(since)) else None
    return stack.observer().logs(stack.recorded, paths, follow=follow, since=moment, tail=tail)


def chosen(paths: Sequence[str], given: Sequence[str]) -> list[str]:
    """The processes that are meant, in the experiment's order. UserError: a name matches nothing."""
    if not given:
        return list(paths)
    groups = {path.partition("/")[0] for path in paths if "/" in path}
    result: set[str] = set()
    for name in given:
        if any(mark in name for mark in "*?["):
            matching = [path for path in paths if _is_meant(name, path)]
            if not matching:
                raise UserError(f"no process matches {shown(name)}", remedy=f"There are: {listed(paths)}")
            result.update(matching)
        elif name not in paths and (group := next((g for g in groups if is_same(g, name.rstrip("/"))), None)):
            result.update(path for path in paths if path.startswith(f"{group}/"))
        else:
            result.add(match(name, paths, "process"))
    return [path for path in paths if path in result]


def _is_meant(pattern: str, path: str) -> bool:
    """`agents/*` means paths, `worker-*` names as well, in whatever group."""
    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)


def seconds(given: str) -> float:
    """How long `90s`, `5m`, `1h30m` or `2d` is. UserError: none of these."""
    parts = _DURATION.findall(given)
    if not parts or "".join(number + unit for number, unit in parts) != given:
        if given.replace(".", "", 1).isdecimal():
            return float(given)
        raise UserError(f"{shown(given)} is not a duration", remedy="Write it as 90s, 5m, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
