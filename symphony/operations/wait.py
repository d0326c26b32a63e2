"""Waits until an experiment, or some processes of it, are ready or have completed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from symphony.backends import registry
from symphony.backends.observe import ProcessStatus
from symphony.operations import stacks
from symphony.operations.process import is_well, processes

Goal = Literal["ready", "completed"]
TIMED_OUT = 124
# Seconds between two listings, of this machine and of a server.
_LOCAL, _REMOTE = 0.5, 3.0
_FAILED = ("failed", "lost", "blocked")


def wait(
    stack: stacks.Stack, paths: Sequence[str] = (), goal: Goal = "completed", timeout: float | None = None
) -> tuple[Sequence[ProcessStatus], int]:
    """Return the statuses of the processes when the goal is reached or missed, and the exit code for it.

    The code is 0 for a goal that is reached, 1 where a process failed, was lost or is blocked, and 124 at the
    timeout.

    Args:
        stack: The experiment.
        paths: The processes to wait for; all by default.
        goal: "ready", or "completed": that they have ended, with exit code 0.
        timeout: The seconds to wait at most; None waits for ever.
    """
    began = time.monotonic()
    pause = _LOCAL if registry.get(stack.backend or "").local else _REMOTE
    while True:
        statuses = [status for status in processes(stack) if not paths or status.path in paths]
        if (code := _exit_code(statuses, goal)) is not None:
            return statuses, code
        left = pause if timeout is None else timeout - (time.monotonic() - began)
        if left <= 0:
            return statuses, TIMED_OUT
        time.sleep(min(pause, left))


def _exit_code(statuses: Sequence[ProcessStatus], goal: Goal) -> int | None:
    """Return the exit code; None while there is something to wait for."""
    if goal == "ready":
        if any(status.state in _FAILED for status in statuses):
            return 1
        return 0 if all(map(is_well, statuses)) else None
    if any(status.state not in ("completed", *_FAILED) for status in statuses):
        # A process that still runs may unblock others.
        return None
    return 0 if all(status.state == "completed" for status in statuses) else 1
