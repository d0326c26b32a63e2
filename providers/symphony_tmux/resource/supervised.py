"""The order, the probes and the ends of an experiment, in a file that its supervisor reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from symphony import files, paths
from symphony.supervision import Declaration, State, read_state
from symphony_tmux.resource.inputs import SessionInputs

DECLARED, STATE = "supervision.json", "supervisor-state.json"
_LIMIT = 1 << 26


def write(wanted: SessionInputs, ports: Mapping[str, int]) -> dict[str, Any] | None:
    """Write the declaration with the ports that the services really have; return it as outputs."""
    file = paths.experiment_folder(wanted.server, wanted.name) / DECLARED
    if wanted.supervision is None:
        files.remove(file)
        return None
    moved = wanted.supervision.moved({port: ports[service] for service, port in wanted.ports.items()})
    files.own_folder(file.parent)
    files.replace(file, msgspec.json.encode(moved))
    return msgspec.to_builtins(wanted.supervision)


def read(folder: Path) -> Declaration | None:
    """Return the declaration of the experiment with this folder; None where it has none."""
    try:
        return msgspec.json.decode(files.read(folder / DECLARED, limit=_LIMIT), type=Declaration)
    except (OSError, msgspec.DecodeError):
        return None


def state(folder: Path) -> State:
    """Return what the supervisor of the experiment with this folder has found out so far."""
    try:
        return read_state(files.read(folder / STATE, limit=_LIMIT))
    except OSError:
        return State()
