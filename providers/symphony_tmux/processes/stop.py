"""Ends whole process trees, and nothing else: TERM to all, grace, KILL until none is left.

A process belongs to a tree by the marker in its environment, by descent, or by the session of a supervisor
that still lives. A tmux server that was started in it does not: it holds experiments of its own (servers.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from symphony.errors import SymphonyError
from symphony_tmux import names
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Identity, Process
from symphony_tmux.tmux import servers

Wanted = Callable[[str], bool]

KILL_DEADLINE = 10.0
# Supervisors end by themselves when their process has, after the last line of its log.
SUPERVISOR_DEADLINE = 0.5


def marked(owner: str, path: str | None = None) -> Wanted:
    """Return a predicate for markers of the owner, or of a single process of the owner."""

    def is_wanted(marker: str) -> bool:
        marked = names.marked_path(owner, marker)
        return marked is not None and path in (None, marked)

    return is_wanted


def members(scan: Collection[Process], roots: Iterable[Identity], wanted: Wanted) -> dict[Identity, Process]:
    """Return living roots, processes with a wanted marker, and their sessions and descendants."""
    by_identity = {process.identity: process for process in scan}
    apart = servers.written()
    children: dict[int, list[Process]] = {}
    for process in scan:
        children.setdefault(process.parent, []).append(process)
    marked = [process for process in scan if process.marker and wanted(process.marker)]
    live = [*(by_identity[root] for root in roots if root in by_identity), *marked]
    # A session is named by the pid of its leader, which only means ours while our leader has that pid.
    sessions = {root.pid for root in live if root.session == root.pid}
    result: dict[Identity, Process] = {}
    ahead = [*live, *(process for process in scan if process.session in sessions)]
    while ahead:
        process = ahead.pop()
        if process.identity not in result:
            result[process.identity] = process
            ahead.extend(child for child in children.get(process.pid, ()) if child.identity not in apart)
    return result


def take_down(supervisors: Collection[Identity], wanted: Wanted, grace: float) -> None:
    """End every process of these trees, and all processes with a wanted marker."""
    if known := _members(supervisors, wanted):
        _send(known.values(), signal.SIGTERM)
        _send([process for process in known.values() if process.stopped], signal.SIGCONT)
        known = _wait(known, wanted, grace)
        _kill({*supervisors, *known}, set(supervisors), wanted)


def _wait(known: dict[Identity, Process], wanted: Wanted, grace: float) -> dict[Identity, Process]:
    """Wait until all have ended or the grace period is over; return the remaining processes."""
    deadline = time.monotonic() + grace
    pause, looked = 0.01, time.monotonic()
    while time.monotonic() < deadline and process_table.alive(known):
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.1)
        if time.monotonic() - looked > 0.5:
            known |= _members(known, wanted)
            looked = time.monotonic()
    return known


def _kill(known: set[Identity], supervisors: set[Identity], wanted: Wanted) -> None:
    start = time.monotonic()
    while left := _members(known, wanted):
        known |= set(left)
        late = time.monotonic() - start
        if late > KILL_DEADLINE:
            pids = ", ".join(str(identity.pid) for identity in list(left)[:5])
            raise SymphonyError(
                f"{len(left)} processes cannot be killed",
                where=f"pids {pids}",
                remedy="`ps -o pid,user,stat,args` shows them; run the command again when they have ended",
            )
        if others := [process for identity, process in left.items() if identity not in supervisors]:
            _send(others, signal.SIGKILL)
        elif late >= SUPERVISOR_DEADLINE:
            _send(left.values(), signal.SIGKILL)
        time.sleep(0.01)


def _members(roots: Iterable[Identity], wanted: Wanted) -> dict[Identity, Process]:
    scan = process_table.scan()
    result = members(scan, roots, wanted)
    # A `symphony delete` inside of its own experiment lives until the work is done.
    for above in _self_and_above(scan):
        result.pop(above, None)
    return result


def _self_and_above(scan: Collection[Process]) -> list[Identity]:
    by_pid = {process.pid: process for process in scan}
    result: list[Identity] = []
    pid = os.getpid()
    while (process := by_pid.get(pid)) is not None and process.identity not in result:
        result.append(process.identity)
        pid = process.parent
    return result


def _send(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            _send_one(process.identity, number)


def _send_one(identity: Identity, number: signal.Signals) -> None:
    """Signal a process by a descriptor taken before its start is compared: no later process gets it."""
    if (descriptor := _descriptor(identity.pid)) is None:
        if process_table.start_of(identity.pid) == identity.start:
            os.kill(identity.pid, number)
        return
    try:
        if process_table.start_of(identity.pid) == identity.start:
            signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _descriptor(pid: int) -> int | None:
    """Return a descriptor of a process; None where the kernel, or a filter, gives none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
