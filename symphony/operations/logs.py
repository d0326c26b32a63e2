"""The merged output of the processes of one experiment."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from symphony.backends.observe import LogLine
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.matching import match_processes
from symphony.plan.names import shown

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def logs(
    stack: stacks.Stack,
    words: Sequence[str] = (),
    *,
    follow: bool = False,
    since: str | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield lines in the order of time.

    Args:
        stack: The experiment.
        words: Names, groups or patterns of its processes; none stands for all.
        follow: Keep yielding new output.
        since: Only output of the last `90s`, `5m`, `2h`; "0" stands for all, as in kubectl.
        tail: Only so many last lines of each process.

    Raises:
        UserError: The experiment is not up, a word matches no process, or since is no duration.
    """
    stack = stacks.ensure_same_location(stack)
    if stack.recorded is None:
        raise stack.not_up()
    paths = match_processes(words, list(stack.processes))
    moment = time.time() - ago if since and (ago := seconds(since)) else None
    return stack.observer().logs(stack.recorded, paths, follow=follow, since=moment, tail=tail)


def seconds(duration: str) -> float:
    """Return the seconds of `90s`, `5m`, `1h30m` or `2d`.

    Raises:
        UserError: The text is no duration.
    """
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        if duration.replace(".", "", 1).isdecimal():
            return float(duration)
        raise UserError(f"{shown(duration)} is not a duration", remedy="Write it as 90s, 5m, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
