"""The limits, niceness and processors that a process inherits from the caller of `up`.

The supervisor sets them in every start of the process: it is a child of the tmux server, not of the caller.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from symphony_tmux.processes import process_table
from symphony_tmux.tmux.client import Listing

CAP_SYS_RESOURCE, CAP_SYS_NICE = 24, 23
# How a person calls what `ulimit` sets, and its letter there.
CALLED = {
    "CPU": ("seconds of processor time", "t"),
    "FSIZE": ("bytes a file", "f"),
    "DATA": ("bytes of data", "d"),
    "NPROC": ("processes", "u"),
    "AS": ("bytes of memory", "v"),
    "NOFILE": ("open files", "n"),
    "STACK": ("bytes of stack", "s"),
    "MEMLOCK": ("bytes of locked memory", "l"),
}


def lines() -> list[bytes]:
    """Return the limits of this process as lines of the launch file, which the supervisor reads."""
    result = [f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"]
    if hasattr(os, "sched_getaffinity"):
        result += [" ".join(["cpus", *map(str, sorted(os.sched_getaffinity(0)))])]
    for number in sorted({*_numbers().values()}):
        soft, hard = (value % (1 << 64) for value in resource.getrlimit(number))
        result += [f"limit {number} {soft} {hard}"]
    return [f"# {line}".encode() for line in result]


def withheld(listing: Listing) -> Iterator[tuple[str, str]]:
    """Yield what processes in this tmux server cannot have although this process has it, and the remedy.

    Who started it had less, and only a privileged process gets back what was once given up.
    """
    pid = listing.server_pid
    if not pid or not hasattr(resource, "prlimit"):
        return
    remedy = "set symphony:server to a new name for this experiment, or start all of that server again"
    try:
        for name, (called, letter) in CALLED.items():
            most, wanted = resource.prlimit(pid, _numbers()[name])[1], resource.getrlimit(_numbers()[name])[0]
            if _is_less(most, wanted) and not _may(CAP_SYS_RESOURCE):
                yield (
                    f"the tmux server was started under a limit of {most} {called} (ulimit -{letter})",
                    remedy,
                )
        niceness = os.getpriority(os.PRIO_PROCESS, pid)
    except (OSError, ValueError):
        return
    if niceness > os.getpriority(os.PRIO_PROCESS, 0) and not _may(CAP_SYS_NICE):
        yield f"the tmux server was started with a niceness of {niceness}", remedy


def _is_less(most: int, wanted: int) -> bool:
    return most != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or most < wanted)


def _numbers() -> dict[str, int]:
    heads = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name.removeprefix("RLIMIT_"): getattr(resource, name) for name in heads}


def _may(capability: int) -> bool:
    try:
        status = (process_table.PROC / "self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> capability & 1)
