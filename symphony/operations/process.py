"""The processes of one experiment and how each is."""

from __future__ import annotations

import re
from typing import Any

from symphony.backends.observe import ProcessStatus
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.times import ago
from symphony.plan.problems import count


def processes(stack: stacks.Stack) -> list[ProcessStatus]:
    """Every process of the experiment.

    UserError: nothing was ever started, or it runs on another host. SymphonyError: nobody answers there.
    """
    stacks.ensure_same_location(stack)
    if stack.recorded is None:
        raise UserError(
            f"{stack.shown} has no processes", remedy=f"Start it with `symphony up {stack.shown}`"
        )
    (statuses,) = stack.observer().statuses([stack.recorded])
    if isinstance(statuses, SymphonyError):
        unknown = count(len(stack.recorded.processes), "process", "processes")
        what = f"{stack.shown}: {statuses.what}; {unknown} unknown"
        raise SymphonyError(what, remedy=statuses.remedy) from statuses
    return sorted(statuses, key=lambda status: in_order(status.path))


def is_well(status: ProcessStatus) -> bool:
    """What `ready` counts: a process that can be reached, or that came to its good end."""
    return status.ready or status.state == "completed"


def in_order(path: str) -> tuple[object, ...]:
    """A sort key: processes in no group first, agent-2 before agent-10."""
    group, _, name = path.rpartition("/")
    return (_pieces(group), _pieces(name))


def _pieces(text: str) -> tuple[tuple[int, int, str], ...]:
    parts = re.split(r"(\d+)", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)


def state(status: ProcessStatus) -> str:
    """The state of a process in words: `running: 14m (last: exit 139)`."""
    since = ago(status.since)
    # The scheduler ends its own words with a full stop.
    parts = [status.why.rstrip("."), f"{since} ago" if status.why and since else since]
    if status.state == "running":
        parts = [since, status.why]
    words = ", ".join(part for part in parts if part)
    last = f" (last: {status.last})" if status.last else ""
    return f"{status.state}{': ' if words else ''}{words}{last}"


def columns(status: ProcessStatus) -> dict[str, Any]:
    """What is told of a process, by the heads of the original's table."""
    return {
        "Group": status.group,
        "Name": status.name,
        "Ready": int(status.ready),
        "Restarts": status.restarts,
        "State": state(status),
    }
