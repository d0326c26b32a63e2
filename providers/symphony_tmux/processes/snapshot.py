"""Snapshot: the processes and windows of this machine, read once in a run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from msgspec.structs import replace

from symphony_tmux import names
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Process
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import Listing, Pane


@dataclass
class Snapshot:
    """The cached listings of a run of the provider, shared by its threads."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    _listings: dict[str, Listing] = field(default_factory=dict[str, Listing])
    _indexes: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _marked: dict[str, list[Process]] | None = None

    def listing(self, server: str) -> Listing:
        with self.lock:
            if server not in self._listings:
                self._listings[server] = client.list_panes(server)
            return self._listings[server]

    def forget(self, server: str) -> None:
        """Forget a listing that is out of date."""
        with self.lock:
            self._listings.pop(server, None)
            for key in [key for key in self._indexes if key[0] == server]:
                del self._indexes[key]

    def set_pane(self, server: str, owner: str, path: str, pane: Pane | None) -> None:
        """Record the pane that a process now has, or that it has none."""
        with self.lock:
            listing = self._listings.get(server)
            if listing is not None:
                others = [other for other in listing.panes if (other.owner, other.path) != (owner, path)]
                self._listings[server] = replace(listing, panes=(*others, pane) if pane else tuple(others))

    def panes(self, server: str, owner: str, path: str) -> list[Pane]:
        """Return the panes marked as this process; after a fault there may be several."""
        return [pane for pane in self.listing(server).panes if (pane.owner, pane.path) == (owner, path)]

    def paths(self, server: str, owner: str) -> set[str]:
        """Return the processes of the owner that have a window or still run without one."""
        windows = {pane.path for pane in self.listing(server).panes if pane.owner == owner}
        return {path for path in windows | set(self.trees(owner)) if names.is_path(path)}

    def trees(self, owner: str) -> dict[str, list[Process]]:
        """Return path -> the processes with its marker that lived at the first call in the run."""
        with self.lock:
            if self._marked is None:
                self._marked = {}
                for process in process_table.scan():
                    if process.marker:
                        self._marked.setdefault(process.marker, []).append(process)
            result: dict[str, list[Process]] = {}
            for marker, processes in self._marked.items():
                if (path := names.marked_path(owner, marker)) is not None:
                    result.setdefault(path, []).extend(processes)
            return result

    def next_index(self, server: str, session_id: str) -> int:
        """Return a free window index, so that one call of tmux can create and address a window."""
        with self.lock:
            key = (server, session_id)
            if key not in self._indexes:
                used = [pane.index for pane in self.listing(server).panes if pane.session_id == session_id]
                self._indexes[key] = max(used, default=0)
            self._indexes[key] += 1
            return self._indexes[key]
