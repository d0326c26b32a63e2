"""Ends whole process trees, and nothing else: TERM to all, grace, KILL until none is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from symphony.errors import SymphonyError
from symphony_tmux.processes import cgroups, process_table, trees
from symphony_tmux.processes.process_table import Identity, Process
from symphony_tmux.processes.trees import Wanted

KILL_DEADLINE = 10.0
# Roots are supervisors: they end by themselves when their process has, after the last line of its log.
SUPERVISOR_DEADLINE = 0.5
Look = Callable[[Iterable[Identity]], dict[Identity, Process]]


def take_down(
    roots: Collection[Identity], wanted: Wanted, grace: float, groups: Collection[Path] = ()
) -> None:
    """End every process of these trees, and in these control groups of their supervisors."""
    look = partial(_members, wanted=wanted, groups=groups)
    if known := look(roots):
        _send(known.values(), signal.SIGTERM)
        _send([each for each in known.values() if each.stopped], signal.SIGCONT)
        known = _wait(known, look, grace)
        _kill({*roots, *known}, set(roots), look, groups)
    for group in groups:
        with suppress(OSError):
            group.rmdir()


def _wait(known: dict[Identity, Process], look: Look, grace: float) -> dict[Identity, Process]:
    """Wait until all are gone or the grace is over; return them with what they started meanwhile."""
    deadline = time.monotonic() + grace
    pause, looked = 0.01, time.monotonic()
    while time.monotonic() < deadline and process_table.alive(known):
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.1)
        if time.monotonic() - looked > 0.5:
            known |= look(known)
            looked = time.monotonic()
    return known


def _kill(known: set[Identity], spared: set[Identity], look: Look, groups: Collection[Path]) -> None:
    start = time.monotonic()
    while left := look(known):
        known |= set(left)
        late = time.monotonic() - start
        if late > KILL_DEADLINE:
            pids = ", ".join(str(each.pid) for each in list(left)[:5])
            raise SymphonyError(
                f"{len(left)} processes cannot be killed",
                where=f"pids {pids}",
                remedy="`ps -o pid,user,stat,args` shows them; try again once they are gone",
            )
        only_spared = set(left) <= spared
        if not (only_spared and late < SUPERVISOR_DEADLINE):
            _send([each for key, each in left.items() if only_spared or key not in spared], signal.SIGKILL)
        pids = {each.pid for each in left}
        for group in groups:
            # A caller that deletes its own experiment from inside, or a stranger, may be in it and stays.
            if pids.issuperset(cgroups.members(group)):
                cgroups.kill(group)
        time.sleep(0.01)


def _members(roots: Iterable[Identity], wanted: Wanted, groups: Collection[Path]) -> dict[Identity, Process]:
    scan = process_table.scan()
    grouped = {*chain.from_iterable(map(cgroups.members, groups))}
    # A process with another marker is of another experiment, whatever group it is in.
    left = {
        each.identity for each in scan if each.pid in grouped and (not each.marker or wanted(each.marker))
    }
    result = trees.members(scan, {*roots, *left}, wanted)
    # Who deletes an experiment from inside it lives until the work is done.
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
