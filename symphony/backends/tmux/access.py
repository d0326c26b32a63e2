"""Reaches into the processes of an experiment on this machine: commands, windows, files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony.backends.access import Copied, Streams, Tell, Way
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    """Run a command as the process would: in its folder, with its variables, after its preamble."""
    # Only this one needs what a start needs.
    from symphony.backends.tmux import exec as running

    facts = recorded.processes[path]
    return running.execute(path, facts, _start_folder(path, facts), words, streams)


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    """Show the window of the process in this terminal. UserError: there is no terminal."""
    from symphony.backends.tmux import exec as running

    return running.attach(path, recorded.processes[path], streams)


def send(recorded: Recorded, path: str, source: Path, place: str, tell: Tell) -> Copied:
    """Copy to a place on this machine, beginning at the folder of the process."""
    # Only copies need it.
    from symphony.backends import copying

    return copying.copy(source, copying.final_name(_placed(recorded, path, place), source.name), tell)


def fetch(recorded: Recorded, path: str, place: str, target: Path, tell: Tell) -> Copied:
    """Copy from a place on this machine, beginning at the folder of the process."""
    from symphony.backends import copying

    return copying.copy(Path(_placed(recorded, path, place)), target, tell)


def way(recorded: Recorded, service: str, address: str) -> Way:
    """Return the address on this machine, with a warning where nothing of the experiment listens on it."""
    # Only visits need it.
    from symphony_tmux.ports.listeners import Listeners

    port, listeners = int(address.rpartition(":")[2]), Listeners(recorded.owner)
    if stranger := listeners.stranger(port):
        return Way(address, warning=f"port {port} of {service} is in use by another program ({stranger})")
    heard = listeners.is_heard(port)
    return Way(address, warning="" if heard else f"nothing listens on port {port} of {service} yet")


def _start_folder(path: str, facts: Mapping[str, Any]) -> Path:
    """Return the start folder of a process. SymphonyError: it is gone."""
    folder = Path(str(facts.get("cwd") or Path.home()))
    if not folder.is_dir():
        raise SymphonyError(f"the start folder of {path} is gone", where=str(folder), remedy="Make it again")
    return folder


def _placed(recorded: Recorded, path: str, place: str) -> str:
    """Return a place as the process sees it; an ending slash says that it is a folder."""
    return os.path.join(_start_folder(path, recorded.processes[path]), place)  # noqa: PTH118 - keeps the slash
