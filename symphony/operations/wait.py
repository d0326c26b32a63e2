"""Waits until an experiment, or one process of it, is ready or has come to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from symphony.backends.observe import ProcessStatus
from symphony.operations import stacks
from symphony.operations.process import is_well, processes

Goal = Literal["ready", "completed"]
TIMED_OUT = 124
# Seconds between two looks: one asks an API server, the other this machine.
_LOOKS = {"kubernetes": 3.0}
_LOCAL_LOOK = 0.5
_BAD = ("failed", "lost", "blocked")


@dataclass(frozen=True)
class Waited:
    """The processes that were waited for, as they are now; code: the exit code that tells how it ended."""

    statuses: tuple[ProcessStatus, ...]
    code: int | None


def wait(
    stack: stacks.Stack, paths: Sequence[str] = (), goal: Goal = "completed", timeout: float | None = None
) -> Iterator[Waited]:
    """Yield how the processes are, at once and whenever that changes, until the goal is reached or missed.

    The last has an exit code: 0 where the goal is reached, 1 where a process failed, was lost or is blocked,
    124 at the timeout.

    Args:
        stack: The experiment.
        paths: The processes to wait for; all by default.
        goal: "ready", or "completed": that they have ended, with exit code 0.
        timeout: The seconds to wait at most; None waits for ever.
    """
    began, last = time.monotonic(), None
    while True:
        statuses = tuple(status for status in processes(stack) if not paths or status.path in paths)
        code = _code(statuses, goal)
        if code is None and timeout is not None and time.monotonic() - began >= timeout:
            code = TIMED_OUT
        if statuses != last or code is not None:
            yield Waited(statuses, code)
        if code is not None:
            return
        last = statuses
        pause = _LOOKS.get(stack.backend or "", _LOCAL_LOOK)
        left = pause if timeout is None else timeout - (time.monotonic() - began)
        time.sleep(max(0.0, min(pause, left)))


def _code(statuses: Sequence[ProcessStatus], goal: Goal) -> int | None:
    """Return the exit code; None while there is something to wait for."""
    if goal == "ready":
        if any(status.state in _BAD for status in statuses):
            return 1
        return 0 if all(map(is_well, statuses)) else None
    if any(status.state not in ("completed", *_BAD) for status in statuses):
        # What is blocked alone waits for what still runs.
        return None
    return 0 if all(status.state == "completed" for status in statuses) else 1
