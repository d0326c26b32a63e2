"""Follows processes whose logs are local files: their states while an `up` waits, and their output."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from symphony.backends.observe import Link, LogLine, ProcessStatus, Recorded
from symphony.errors import SymphonyError
from symphony.plan.names import printable

_POLL_SECONDS = 0.2
# Seconds until a supervisor has noticed the changes of a run.
_SETTLED = 3.0
# Seconds that an `up` waits for a service without a probe, which may listen much later, or by UDP.
_UNPROBED = 3.0
_WIDEST = 120
NOT_CREATED = "the last `up` or `delete` stopped half-way"
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
        starts: Returns whether a process is about to start by itself; the watch goes on while it is.
        queues: Returns whether a process will start at an unknown time.
    """
    began, last = time.monotonic(), None
    changed = began
    # Since when processes have been queued: the expected start in `why` may change all the time.
    queued_since: float | None = None
    while True:
        current = statuses([recorded])[0]
        if isinstance(current, SymphonyError):
            raise current
        current = tuple(current)
        # Without the pid, which changes with every line of a shell script.
        now = [(status.path, status.state, status.ready, status.why, status.restarts) for status in current]
        if now != last:
            yield current
            changed = time.monotonic()
        waited, last = time.monotonic() - began, now
        unchanged_for = time.monotonic() - changed
        held = [
            status
            for status in current
            if status.waits_for or status.state == "stopped" or status.why.startswith("stopped")
        ]
        waits = bool(held) and (waited <= _SETTLED or _starts_soon(current))
        not_ready = [status.path for status in current if status.state == "running" and not status.ready]
        is_probed = any(recorded.processes[path].get("is_probed") for path in not_ready)
        start_patience = patience if is_probed else min(patience, _UNPROBED)
        is_starting = bool(not_ready) and unchanged_for < start_patience
        queued_since = (queued_since or time.monotonic()) if queues(current) else None
        is_queued = queued_since is not None and time.monotonic() - queued_since < patience
        if waited > limit or not (waits or is_starting or is_queued or starts(current)):
            return
        time.sleep(_POLL_SECONDS)


def _starts_soon(now: Sequence[ProcessStatus]) -> bool:
    """Return whether a process waits only for starts, not (even through others) for the end of a process."""
    ended = {status.path for status in now if status.state in ("completed", "failed")}
    waiting = {
        status.path: status.waits_for for status in now if status.state == "waiting" and status.waits_for
    }
    dependencies = {path: {_path(wait) for wait in waits} - ended for path, waits in waiting.items()}
    waits_for_ends = {
        path
        for path, waits in waiting.items()
        if any(wait.endswith(("(completed)", "(ended)")) and _path(wait) not in ended for wait in waits)
    }
    for path in TopologicalSorter(dependencies).static_order():
        if dependencies.get(path, set[str]()) & waits_for_ends:
            waits_for_ends.add(path)
    return bool(waiting.keys() - waits_for_ends)


def _path(wait: str) -> str:
    return wait.rpartition(" (")[0]


def logs(
    recorded: Recorded,
    paths: Sequence[str],
    *,
    alive: Callable[[], bool] | None = None,
    since: float | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield the output of several processes, merged by time."""
    from symphony.backends import process_logs

    return process_logs.merge_lines(recorded.processes, paths, since=since, tail=tail, alive=alive)


def planned_link(process: Mapping[str, Any]) -> Link:
    """Return the first step of a process: what it runs, and where."""
    words = "; ".join(map(str, process.get("script") or ())) or shlex.join(
        map(str, process.get("argv") or ())
    )
    return Link("planned", f"{printable(words, _WIDEST)} in {process['cwd']}")


def failed_cmds(folder: Path) -> list[Link]:
    """Return the step with the lines of cmds that failed, if any; folder: that of the process."""
    # Imported here: only `why` needs it.
    from symphony_tmux.processes import launch_file

    failed = launch_file.failed_lines(folder)
    return [Link("cmds", printable("; ".join(failed), 3 * _WIDEST))] if failed else []


def never_started(name: str) -> list[Link]:
    """Return the steps of a declared process that was never started; name: the experiment's."""
    remedy = f"`symphony up {name}` tries again and shows why it fails"
    return [Link("started", f"no: {NOT_CREATED}", broken=True, remedy=remedy)]
