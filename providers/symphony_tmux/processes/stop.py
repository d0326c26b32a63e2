"""Ends whole process trees, and nothing else: TERM to all, grace, KILL until none is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain

from symphony.errors import SymphonyError
from symphony_tmux.processes import process_table, trees
from symphony_tmux.processes.child import Child
from symphony_tmux.processes.process_table import Identity, Process
from symphony_tmux.processes.trees import Wanted

KILL_DEADLINE = 10.0
# Roots are supervisors: they end by themselves when their process has, after the last line of its log.
SUPERVISOR_DEADLINE = 0.5
Look = Callable[[Iterable[Identity]], dict[Identity, Process]]


def take_down(
    roots: Collection[Identity], wanted: Wanted, grace: float, children: Collection[Child] = ()
) -> None:
    """No process of these trees lives when this returns; children: what their supervisors have started."""
    look = partial(_members, wanted=wanted, children=children)
    if known := look(roots):
        _send(known.values(), signal.SIGTERM)
        _send([each for each in known.values() if each.stopped], signal.SIGCONT)
        known = _wait(known, look, grace)
        _kill({*roots, *known}, set(roots), look, children)
    for child in children:
        child.remove_cgroup()


def _wait(known: dict[Identity, Process], look: Look, grace: float) -> dict[Identity, Process]:
    """Until all are gone or the grace is over; keeps what they start meanwhile in sight."""
    deadline = time.monotonic() + grace
    pause, looked = 0.01, time.monotonic()
    while time.monotonic() < deadline and process_table.alive(known):
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 0.1)
        if time.monotonic() - looked > 0.5:
            known |= look(known)
            looked = time.monotonic()
    return known


def _kill(known: set[Identity], spared: set[Identity], look: Look, children: Collection[Child]) -> None:
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
        for child in children:
            # Who deletes an experiment from inside is in it, too, and stays.
            if child.grouped() <= set(left):
                child.kill()
        time.sleep(0.01)


def _members(
    roots: Iterable[Identity], wanted: Wanted, children: Collection[Child]
) -> dict[Identity, Process]:
    scan = process_table.scan()
    result = trees.members(
        scan, {*roots, *chain.from_iterable(child.members() for child in children)}, wanted
    )
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
    """The descriptor is taken before the look at the start time, so the signal cannot reach a successor."""
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
    """None where an older kernel, or a filter in front of it, gives none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
