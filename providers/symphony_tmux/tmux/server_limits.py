"""Checks the limits of a tmux server: those that it would exceed, and those that its processes inherit.

A server without free file descriptors does not fail: it takes minutes to open another window.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from symphony_tmux.processes import launch_file, process_table
from symphony_tmux.tmux.client import Listing

# The file descriptors of a window: its terminal, and the pipe to its log.
DESCRIPTORS = 2
# For the server itself, and for attached clients.
SPARE = 32
TERMINALS = Path("/proc/sys/kernel/pty")
CAP_SYS_RESOURCE, CAP_SYS_NICE = 24, 23
# The limit -> its description, and its letter in `ulimit`.
LIMITS = {
    "CPU": ("seconds of CPU time", "t"),
    "FSIZE": ("bytes per file", "f"),
    "DATA": ("bytes of data", "d"),
    "NPROC": ("processes", "u"),
    "AS": ("bytes of memory", "v"),
    "NOFILE": ("open files", "n"),
    "STACK": ("bytes of stack", "s"),
    "MEMLOCK": ("bytes of locked memory", "l"),
}


def shortages(owner: str, wanted: int, listing: Listing) -> Iterator[tuple[str, str]]:
    """Yield the resources (files, terminals) of which the tmux server would have too few, and the remedy."""
    live = [pane.owner for pane in listing.panes if not pane.dead]
    own = live.count(owner)
    limit = _limit(listing.server_pid)
    fit = max(0, (limit - SPARE) // DESCRIPTORS - (len(live) - own))
    if limit != resource.RLIM_INFINITY and wanted > fit:
        yield (
            f"the tmux server can open {limit} files, enough for {fit} of {wanted} processes",
            "raise the limit (ulimit -H -n), delete all experiments of that server and start them again,"
            " or start fewer processes",
        )
    if (terminals := _terminals()) is not None and wanted - own > max(0, terminals[0] - terminals[1]):
        limit, used = terminals
        yield (
            f"{wanted - own} processes need a terminal each, and {used} of this machine's {limit} are in use",
            f"raise that limit (sysctl -w kernel.pty.max={limit + wanted}), or start fewer",
        )


def lowered_limits(listing: Listing) -> Iterator[tuple[str, str]]:
    """Yield the hard limits of this tmux server that are below this process's soft limits, and the remedy.

    The server has the limits of the shell that started it, and only a privileged process can raise them.
    """
    pid = listing.server_pid
    if not pid or not hasattr(resource, "prlimit"):
        return
    remedy = (
        "set symphony:server to a new name, or delete all experiments of that server and start them again"
    )
    try:
        for name, (description, letter) in LIMITS.items():
            number = launch_file.limit_numbers()[name]
            limit, wanted = resource.prlimit(pid, number)[1], resource.getrlimit(number)[0]
            if _is_less(limit, wanted) and not _has_capability(CAP_SYS_RESOURCE):
                what = (
                    f"the tmux server was started under a limit of {limit} {description} (ulimit -{letter})"
                )
                yield what, remedy
        niceness = os.getpriority(os.PRIO_PROCESS, pid)
    except (OSError, ValueError):
        return
    if niceness > os.getpriority(os.PRIO_PROCESS, 0) and not _has_capability(CAP_SYS_NICE):
        yield f"the tmux server was started with a niceness of {niceness}", remedy


def _is_less(maximum: int, wanted: int) -> bool:
    return maximum != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or maximum < wanted)


def _terminals() -> tuple[int, int] | None:
    """Return the maximum of terminals of this machine, and the number in use."""
    try:
        return int((TERMINALS / "max").read_text()), int((TERMINALS / "nr").read_text())
    except (OSError, ValueError):
        return None


def _limit(server_pid: int) -> int:
    """Return the limit of open files of the running server, else of a new one."""
    if server_pid and hasattr(resource, "prlimit"):
        try:
            return resource.prlimit(server_pid, resource.RLIMIT_NOFILE)[0]
        except (OSError, ValueError):
            pass
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _has_capability(capability: int) -> bool:
    try:
        status = (process_table.PROC / "self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> capability & 1)
