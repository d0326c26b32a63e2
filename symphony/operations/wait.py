"""Waits until an experiment, or some processes of it, are ready or have completed."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Literal

from symphony.backends import registry
from symphony.backends.observe import ProcessStatus
from symphony.operations import stacks
from symphony.operations.process import is_well, processes
from symphony.plan.names import DECLARED

Goal = Literal["ready", "completed"]
TIMED_OUT = 124
# Seconds between two listings: of this machine, and of a server.
_LOCAL, _REMOTE = 0.5, 3.0
_EXPERIMENT = "symphony:index:Experiment"
_FAILED = ("failed", "lost", "blocked")
_ENDED = ("completed", "stopped", *_FAILED)


def wait(
    stack: stacks.Stack, paths: Sequence[str] = (), goal: Goal = "completed", timeout: float | None = None
) -> tuple[Sequence[ProcessStatus], int]:
    """Return the statuses of the processes when the goal is reached or missed, and the exit code for it.

    The code is 0 for a goal that is reached, and 124 at the timeout. Where a primary failed, or the process
    that is waited for, it is its exit code; it is 1 where another failed, or one is lost, blocked or stopped.

    Args:
        stack: The experiment.
        paths: The processes to wait for; by default its primaries, or else all.
        goal: "ready", or "completed": that they have ended, with exit code 0.
        timeout: The seconds to wait at most; None waits for ever.
    """
    began = time.monotonic()
    pause = _LOCAL if registry.get(stack.backend or "").local else _REMOTE
    decisive = paths or (_primaries(stack) if goal == "completed" else ())
    while True:
        statuses = [status for status in processes(stack) if not paths or status.path in paths]
        if (code := _exit_code(statuses, goal, decisive)) is not None:
            return statuses, code
        left = pause if timeout is None else timeout - (time.monotonic() - began)
        if left <= 0:
            return statuses, TIMED_OUT
        time.sleep(min(pause, left))


def _primaries(stack: stacks.Stack) -> Sequence[str]:
    """Return the primary processes, whose end ends the experiment, as the state records them."""
    for resource in stack.state.resources if stack.state else ():
        if resource.type == _EXPERIMENT:
            ends: dict[str, Any] = resource.inputs.get(DECLARED, {}).get("ends") or {}
            return [str(path) for path in ends.get("primary") or ()]
    return ()


def _exit_code(statuses: Sequence[ProcessStatus], goal: Goal, decisive: Collection[str]) -> int | None:
    """Return the exit code; None while waiting must continue."""
    if goal == "ready":
        if any(status.state in _FAILED for status in statuses):
            return 1
        return 0 if all(map(is_well, statuses)) else None
    own = [status for status in statuses if status.path in decisive] if decisive else statuses
    if all(status.state == "completed" for status in own):
        return 0
    if any(status.state not in _ENDED for status in own):
        # A process that still runs may unblock others.
        return None
    failed = [status for status in own if status.state in _FAILED]
    return (failed[0].exit_code or 1) if failed and decisive else 1
