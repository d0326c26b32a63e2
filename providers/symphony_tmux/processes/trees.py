"""The process trees of an experiment, or of one process of it.

Evidence is the marker in the environment, descent, and the session of a root that still lives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from symphony_tmux import names
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Identity, Process
from symphony_tmux.tmux import servers

Wanted = Callable[[str], bool]


def marked(owner: str, path: str | None = None) -> Wanted:
    """Return a test for the marker of the owner, or of one process of it."""

    def test(marker: str) -> bool:
        result = names.marked_path(owner, marker)
        return result is not None and path in (None, result)

    return test


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


class OwnedProcesses:
    """The processes with the owner's marker, and those below them."""

    def __init__(self, owner: str) -> None:
        self.wanted = marked(owner)

    def includes(self, pid: int) -> bool:
        seen: set[int] = set()
        while pid > 1 and pid not in seen:
            seen.add(pid)
            process = process_table.process(pid)
            if process is None:
                return False
            if process.marker and self.wanted(process.marker):
                return True
            pid = process.parent
        return False
