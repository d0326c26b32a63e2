"""Look: reads the processes of this machine once for many questions, and returns which are ready."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symphony.errors import SymphonyError
from symphony.paths import experiment_folder
from symphony_tmux import names
from symphony_tmux.processes import observe, process_table
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import Listing, Pane

if TYPE_CHECKING:
    from symphony.supervision import State
    from symphony_tmux.listeners import Listeners, Sockets


class Look:
    """A snapshot of this machine: facts that several processes need are read once."""

    def __init__(self) -> None:
        self._listings: dict[str, Listing | SymphonyError] = {}
        self._states: dict[Path, State] = {}
        self._sockets: Sockets | None = None
        self._listeners: dict[str, Listeners] = {}
        # By server, the owners whose experiment has a running supervisor.
        self._supervised: dict[str, set[str]] = {}

    def listing(self, server: str) -> Listing | SymphonyError:
        if server not in self._listings:
            try:
                self._listings[server] = client.list_panes(server)
            except SymphonyError as error:
                self._listings[server] = error
        return self._listings[server]

    def has_supervisor(self, process: Mapping[str, Any]) -> bool:
        """Return whether the supervisor of the experiment of a process runs."""
        server = str(process["server"])
        if server not in self._supervised:
            listing = self.listing(server)
            panes = () if isinstance(listing, SymphonyError) else listing.panes
            own = {pane.owner for pane in panes if pane.path == names.SUPERVISOR and not pane.dead}
            self._supervised[server] = own
        return str(process["owner"]) in self._supervised[server]

    def why_not_ready(self, process: Mapping[str, Any], pane: Pane) -> str:
        """Return why a running process is not ready; empty if it is."""
        if process.get("is_probed"):
            return self._by_probe(process, pane)
        services: Mapping[str, str] = process.get("services") or {}
        if not any(name.endswith("_BIND") for name in services):
            return ""
        # Imported here: few processes bind services.
        from symphony_tmux import variables
        from symphony_tmux.listeners import Sockets

        sockets = self._sockets = self._sockets or Sockets()
        missing = sockets.missing(pane.pid, sorted(variables.bound_ports(services)))
        return ", ".join(
            f"port {port}: {self._why_silent(port, str(process['owner']), sockets)}" for port in missing
        )

    def _why_silent(self, port: int, owner: str, sockets: Sockets) -> str:
        """Return why a process does not listen on its port."""
        from symphony_tmux.listeners import Listeners

        # To find the program of a socket, every process of the machine is looked through.
        if process_table.HAS_PROC and not sockets.listening[port]:
            return "not listening yet"
        if owner not in self._listeners:
            self._listeners[owner] = Listeners(owner)
        stranger = self._listeners[owner].stranger(port)
        return f"in use by another program ({stranger})" if stranger else "not listening yet"

    def _by_probe(self, process: Mapping[str, Any], pane: Pane) -> str:
        from symphony_tmux.resource import supervised

        folder = experiment_folder(str(process["server"]), str(process["session"]))
        if folder not in self._states:
            self._states[folder] = supervised.state(folder)
        verdict = self._states[folder].verdicts.get(str(process["path"]))
        start, _ = observe.program_start(pane.pid, pane.attempt)
        if verdict is None or verdict.start != start:
            return "not probed yet"
        return "" if verdict.ready else verdict.why
