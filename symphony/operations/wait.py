"""Waits until an experiment, or some processes of it, are ready or have completed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from symphony.backends import registry
from symphony.backends.observe import ProcessStatus
from symphony.operations import stacks
from symphony.operations.process import is_well, processes

Goal = Literal["ready", "completed"]
TIMED_OUT = 124
# Seconds between two listings: of this machine, and of a server.
_LOCAL, _REMOTE = 0.5, 3.0

_FAILED = ("failed", "lost", "blocked")
_ENDED = ("completed", "stopped", *_FAILED)


def wait(
    stack: stacks.Stack, paths: Sequence[str] = (), goal: Goal = "completed", timeout: float | None = None
) -> tuple[Sequence[ProcessStatus], int]:
    """Wait for processes, and return their statuses and an exit code.

    The code is 0 if the goal is reached, and 124 at the timeout. If a primary or one of `paths` failed, it is
    the exit code of that process; it is 1 if another failed, or one is lost, blocked or stopped.

    Without `paths`, wait for the primaries of the experiment, else for all. Without a timeout, wait for ever.
    """
    assert stack.backend is not None
    began = time.monotonic()
    pause = _LOCAL if registry.get(stack.backend).local else _REMOTE
    ends: Mapping[str, Sequence[str]] = stack.declared.get("ends") or {}
    decisive = paths or ((ends.get("primary") or ()) if goal == "completed" else ())
    while True:
        statuses = [status for status in processes(stack) if not paths or status.path in paths]
        if (code := _exit_code(statuses, goal, decisive)) is not None:
            return statuses, code
        left = pause if timeout is None else timeout - (time.monotonic() - began)
        if left <= 0:
            return statuses, TIMED_OUT
        time.sleep(min(pause, left))


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
