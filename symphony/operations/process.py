"""The state of each process of one experiment."""

from __future__ import annotations

import re
import time
from typing import Any

from symphony.backends.observe import ProcessStatus
from symphony.errors import SymphonyError
from symphony.operations import stacks
from symphony.plan.problems import count


def processes(stack: stacks.Stack) -> list[ProcessStatus]:
    """Return the status of every process, in natural order.

    Raises:
        UserError: The experiment is not up, or runs elsewhere.
        SymphonyError: Its backend does not answer.
    """
    stack = stacks.ensure_same_location(stack)
    if stack.recorded is None:
        raise stack.not_up()
    (statuses,) = stack.observer().statuses([stack.recorded])
    if isinstance(statuses, SymphonyError):
        unknown = count(len(stack.processes), "process", "processes")
        what = f"{stack.shown}: {statuses.what}; {unknown} unknown"
        raise SymphonyError(what, remedy=statuses.remedy) from statuses
    return sorted(statuses, key=lambda status: in_order(status.path))


def is_well(status: ProcessStatus) -> bool:
    """Return whether a process is ready or has completed."""
    return status.ready or status.state == "completed"


def in_order(path: str) -> tuple[object, ...]:
    """Return a sort key: processes in no group first, agent-2 before agent-10, lr0_001 before lr0_01."""
    group, _, name = path.rpartition("/")
    return (_parts(group), _parts(name))


def _parts(text: str) -> tuple[tuple[int, float, str], ...]:
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, _number(part), "") if part[0] in "0123456789" else (1, 0.0, part) for part in parts)


def _number(digits: str) -> float:
    # Zeros before other digits are those of a decimal, or fill a number up.
    return float(f"0.{digits}" if digits[0] == "0" else digits)


def state(status: ProcessStatus) -> str:
    """Return the state of a process in words: `running: 14m (last: exit 139)`."""
    since = ago(status.since)
    # The scheduler ends its messages with a full stop.
    parts = [status.why.rstrip("."), f"{since} ago" if status.why and since else since]
    if status.state == "running":
        parts = [since, status.why]
    words = ", ".join(part for part in parts if part)
    last = f" (last: {status.last})" if status.last else ""
    return f"{status.state}{': ' if words else ''}{words}{last}"


def columns(status: ProcessStatus) -> dict[str, Any]:
    """Return the facts of a process under the heads of the original Symphony's table."""
    return {
        "Group": status.group,
        "Name": status.name,
        "Ready": int(status.ready),
        "Restarts": status.restarts,
        "State": state(status),
    }


def ago(since: float | None) -> str:
    """Return the time since a moment, `12s`, `14m`, `3h 12m` or `2d`; empty without a moment."""
    return "" if since is None else duration(time.time() - since)


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m" + (f" {whole % 60}s" if whole < 600 and whole % 60 else "")
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d" + (f" {whole % 86400 // 3600}h" if whole < 864000 else "")
