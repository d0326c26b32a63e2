"""Follows processes whose logs are local files: their states while an `up` waits, and their output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from graphlib import TopologicalSorter

from symphony.backends.observe import Link, LogLine, ProcessStatus, Recorded
from symphony.errors import SymphonyError

# Seconds between two looks, and until a supervisor has noticed the changes of a run.
_LOOK, _SETTLED = 0.2, 3.0
# Seconds that an `up` waits for a service without a probe, which may listen much later, or by UDP.
_UNDECLARED = 3.0
Statuses = Callable[[Sequence[Recorded]], Sequence[Sequence[ProcessStatus] | SymphonyError]]
Progress = Callable[[Sequence[ProcessStatus]], bool]


def watch(
    recorded: Recorded,
    statuses: Statuses,
    patience: float,
    limit: float,
    *,
    starts: Progress = lambda _: False,
    queues: Progress = lambda _: False,
) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses at once and after every change, until waiting longer would not help.

    Args:
        recorded: The experiment.
        statuses: Returns the statuses of experiments.
        patience: Seconds to wait for trouble that may pass.
        limit: Seconds to wait in all.
        starts: Returns whether a process is about to start by itself.
        queues: Returns whether a process will start at an unknown time.
    """
    began, last = time.monotonic(), None
    changed = began
    while True:
        answer = statuses([recorded])[0]
        if isinstance(answer, SymphonyError):
            raise answer
        now = tuple(answer)
        # Without the pid, which changes with every line of a shell script.
        seen = [(each.path, each.state, each.ready, each.why, each.restarts) for each in now]
        if seen != last:
            yield now
            changed = time.monotonic()
        waited, last = time.monotonic() - began, seen
        quiet = time.monotonic() - changed
        held = [status for status in now if status.waits_for or "stopped" in (status.state, status.why[:7])]
        waits = bool(held) and (waited <= _SETTLED or _starts_soon(now))
        not_ready = [status.path for status in now if status.state == "running" and not status.ready]
        is_probed = any(recorded.processes[path].get("is_probed") for path in not_ready)
        is_starting = bool(not_ready) and quiet < (patience if is_probed else min(patience, _UNDECLARED))
        is_queued = quiet < patience and queues(now)
        if waited > limit or not (waits or is_starting or is_queued or starts(now)):
            return
        time.sleep(_LOOK)


def _starts_soon(now: Sequence[ProcessStatus]) -> bool:
    """Return whether a process waits for starts only, and not behind a computation that still runs."""
    over = {status.path for status in now if status.state in ("completed", "failed")}
    waiting = {each.path: each.waits_for for each in now if each.state == "waiting" and each.waits_for}
    before = {path: {_path(wait) for wait in waits} - over for path, waits in waiting.items()}
    late = {
        path
        for path, waits in waiting.items()
        if any(wait.endswith(("(completed)", "(ended)")) and _path(wait) not in over for wait in waits)
    }
    for path in TopologicalSorter(before).static_order():
        if before.get(path, set[str]()) & late:
            late.add(path)
    return bool(waiting.keys() - late)


def _path(wait: str) -> str:
    return wait.rpartition(" (")[0]


def logs(
    recorded: Recorded,
    paths: Sequence[str],
    statuses: Statuses,
    *,
    follow: bool,
    since: float | None,
    tail: int | None,
) -> Iterator[LogLine]:
    """Yield the output of several processes, merged by time."""
    from symphony.backends import process_logs

    def alive() -> bool:
        answer = statuses([recorded])[0]
        return isinstance(answer, SymphonyError) or any(
            status.state in ("running", "waiting") and status.path in paths for status in answer
        )

    return process_logs.merged(recorded.processes, paths, since=since, tail=tail, follow=follow, alive=alive)


def never_started(name: str) -> list[Link]:
    """Return the steps of a declared process that was never started; name: the experiment's."""
    again = f"`symphony up {name}` tries again and shows why it fails"
    return [Link("started", "no: the last `up` stopped before starting it", broken=True, remedy=again)]
