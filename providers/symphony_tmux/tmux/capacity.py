"""Checks that a tmux server can hold the processes of an experiment.

A server that runs out of descriptors takes minutes over every further window instead of refusing it.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from symphony_tmux.tmux.client import Listing

# The terminal of a window, and the pipe to its log.
DESCRIPTORS = 2
# The server's own, and those of who attaches to it.
SPARE = 32
TERMINALS = Path("/proc/sys/kernel/pty")


def shortages(owner: str, wanted: int, listing: Listing) -> Iterator[tuple[str, str]]:
    """Yield the resources (files, terminals) that this tmux server would run out of, and the remedy."""
    live = [pane.owner for pane in listing.panes if not pane.dead]
    ours = live.count(owner)
    limit = _limit(listing.server_pid)
    fit = max(0, (limit - SPARE) // DESCRIPTORS - (len(live) - ours))
    if limit != resource.RLIM_INFINITY and wanted > fit:
        yield (
            f"the tmux server can open {limit} files, enough for {fit} of {wanted} processes",
            "raise that limit (ulimit -H -n) before its first experiment, or start fewer",
        )
    if (known := _terminals()) is not None and wanted - ours > max(0, known[0] - known[1]):
        most, used = known
        yield (
            f"{wanted - ours} processes need a terminal each, and {used} of this machine's {most} are in use",
            f"raise that limit (sysctl -w kernel.pty.max={most + wanted}), or start fewer",
        )


def _terminals() -> tuple[int, int] | None:
    """Return how many terminals this machine may have and has."""
    try:
        return int((TERMINALS / "max").read_text()), int((TERMINALS / "nr").read_text())
    except (OSError, ValueError):
        return None


def _limit(server_pid: int) -> int:
    """Return the open files that a running server, else a new one, may have."""
    if server_pid and hasattr(resource, "prlimit"):
        try:
            return resource.prlimit(server_pid, resource.RLIMIT_NOFILE)[0]
        except (OSError, ValueError):
            pass
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]
