"""What runs of experiments whose folder, with the socket of their tmux server in it, was removed meanwhile.

No server and no file tells of them any more. Their supervisors still are where the folder was.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from symphony import paths
from symphony_tmux import names
from symphony_tmux.processes import process_table, stop, trees
from symphony_tmux.processes.process_id import Identity, Process


def experiments() -> dict[str, list[str]]:
    """owner -> the processes that live."""
    result: dict[str, set[str]] = {}
    for process in _there():
        owner, path = names.owner_of(process.marker)
        if owner:
            result.setdefault(owner, set()).add(path)
    return {owner: sorted(processes) for owner, processes in result.items()}


def take_down(owner: str, grace: float) -> None:
    """End all of an experiment, and the servers in which nothing else runs."""
    there = _there()
    supervisors = [process for process in there if names.owner_of(process.marker)[0] == owner]
    stop.take_down([process.identity for process in supervisors], trees.marked(owner), grace)
    if experiments():
        return
    for server in {
        Identity(process.parent, process_table.start_of(process.parent)) for process in supervisors
    }:
        if process_table.command_name(server.pid) == "tmux: server":
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGTERM)


def _there() -> list[Process]:
    """Every marked process in a folder that was removed, and that had the name of symphony's home."""
    gone = f"{paths.home()} (deleted)"
    result: list[Process] = []
    for pid in process_table.pids():
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == gone:  # noqa: PTH115 - a thousand times
                process = process_table.process(pid)
                result += [process] if process is not None and process.marker else []
    return result
