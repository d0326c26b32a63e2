"""The processes of one experiment and how each is; cli/process.py and Cluster call it."""

from __future__ import annotations

from symphony.backends.interface import ProcessStatus
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.times import ago


def processes(stack: stacks.Stack) -> list[ProcessStatus]:
    """Every process of the experiment. UserError: nothing was ever started, or it runs on another host."""
    stacks.refuse_other_host(stack)
    if stack.recorded is None:
        raise UserError(
            f"{stack.shown} has no processes", remedy=f"Start it with `symphony up {stack.shown}`"
        )
    (statuses,) = stack.observer().statuses([stack.recorded])
    return statuses


def state(status: ProcessStatus) -> str:
    """The state of a process in words: `running: 14m (last: exit 139)`."""
    since = ago(status.since)
    parts = [status.why, f"{since} ago" if status.why and since else since]
    if status.state == "running":
        parts = [since, status.why]
    words = ", ".join(part for part in parts if part)
    last = f" (last: {status.last})" if status.last else ""
    return f"{status.state}{': ' if words else ''}{words}{last}"
