"""Ends process trees: TERM to all processes, the grace period, then KILL until none is left.

A process belongs to a tree by the marker in its environment, by descent, or by a session that a live
supervisor or marked process leads. A tmux server that was started in the tree does not belong to it: it has
experiments of its own (client.recorded_servers).
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
from symphony_tmux.tmux import client

MarkerFilter = Callable[[str], bool]

KILL_DEADLINE = 10.0
# Supervisors end after their process, when its log is complete.
SUPERVISOR_DEADLINE = 0.5


def marker_filter(owner: str, path: str | None = None) -> MarkerFilter:
    """Return a predicate for markers of the owner, or of a single process of the owner."""

    def is_wanted(marker: str) -> bool:
        marked_path = names.marked_path(owner, marker)
        return marked_path is not None and path in (None, marked_path)

    return is_wanted


def members(
    scan: Collection[Process], roots: Iterable[Identity], is_wanted: MarkerFilter
) -> dict[Identity, Process]:
    """Return living roots, processes with a wanted marker, and their sessions and descendants."""
    by_identity = {process.identity: process for process in scan}
    tmux_servers = client.recorded_servers()
    children: dict[int, list[Process]] = {}
    for process in scan:
        children.setdefault(process.parent, []).append(process)
    marked = [process for process in scan if process.marker and is_wanted(process.marker)]
    live = [*(by_identity[root] for root in roots if root in by_identity), *marked]
    # The id of a session is the pid of its leader, which may be reused after the leader's end.
    sessions = {root.pid for root in live if root.session == root.pid}
    result: dict[Identity, Process] = {}
    pending = [*live, *(process for process in scan if process.session in sessions)]
    while pending:
        process = pending.pop()
        if process.identity not in result:
            result[process.identity] = process
            pending.extend(
                child for child in children.get(process.pid, ()) if child.identity not in tmux_servers
            )
    return result


def take_down(supervisors: Collection[Identity], is_wanted: MarkerFilter, grace: float) -> None:
    """End every process of these trees, and all processes with a wanted marker."""
    if tree := _members(supervisors, is_wanted):
        _send(tree.values(), signal.SIGTERM)
        _send([process for process in tree.values() if process.stopped], signal.SIGCONT)
        tree = _wait(tree, is_wanted, grace)
        _kill({*supervisors, *tree}, set(supervisors), is_wanted)


def _wait(tree: dict[Identity, Process], is_wanted: MarkerFilter, grace: float) -> dict[Identity, Process]:
    """Wait until all have ended or the grace period is over; return all processes seen in the tree."""
    deadline = time.monotonic() + grace
    pause, scanned_at = 0.01, time.monotonic()
    while time.monotonic() < deadline and process_table.alive(tree):
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.1)
        if time.monotonic() - scanned_at > 0.5:
            tree |= _members(tree, is_wanted)
            scanned_at = time.monotonic()
    return tree


def _kill(tree: set[Identity], supervisors: set[Identity], is_wanted: MarkerFilter) -> None:
    start = time.monotonic()
    while remaining := _members(tree, is_wanted):
        tree |= set(remaining)
        elapsed = time.monotonic() - start
        if elapsed > KILL_DEADLINE:
            pids = ",".join(str(identity.pid) for identity in list(remaining)[:5])
            raise SymphonyError(
                f"{len(remaining)} processes cannot be killed",
                where=f"pids {pids}",
                remedy=f"`ps -o pid,user,stat,args -p {pids}` shows them; "
                "run the command again when they have ended",
            )
        if others := [process for identity, process in remaining.items() if identity not in supervisors]:
            _send(others, signal.SIGKILL)
        elif elapsed >= SUPERVISOR_DEADLINE:
            _send(remaining.values(), signal.SIGKILL)
        time.sleep(0.01)


def _members(roots: Iterable[Identity], is_wanted: MarkerFilter) -> dict[Identity, Process]:
    scan = process_table.scan()
    result = members(scan, roots, is_wanted)
    # A `symphony delete` in a process of the experiment must not end itself.
    for ancestor in _own_ancestors(scan):
        result.pop(ancestor, None)
    return result


def _own_ancestors(scan: Collection[Process]) -> list[Identity]:
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
    """Signal a process through a pidfd, opened before its start is compared, so that a reused pid is safe."""
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
    """Return a pidfd of a process; None if the kernel, or a seccomp filter, does not support it."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
