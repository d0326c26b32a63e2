"""The file with the order, the probes and the ends of an experiment, for its supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from symphony import files, paths
from symphony.supervision import Declaration, State, read_state
from symphony_tmux import experiment_folder, names
from symphony_tmux.processes import hold
from symphony_tmux.resource.inputs import SessionInputs

DECLARED, STATE = "supervision.json", "supervisor-state.json"


def write(inputs: SessionInputs, ports: Mapping[str, int]) -> dict[str, Any] | None:
    """Write the declaration with the leased ports; return it with the planned ports, for the outputs."""
    file = paths.experiment_folder(inputs.server, inputs.name) / DECLARED
    if inputs.supervision is None:
        files.remove(file)
        # No supervisor will release the processes that still wait.
        for folder in (names.process_folder(inputs.server, inputs.name, path) for path in inputs.processes):
            if (held := hold.read(folder)) is not None and not held.stopped:
                files.remove(folder / hold.NAME)
        return None
    with_leased_ports = inputs.supervision.with_addresses(
        {port: ports[service] for service, port in inputs.ports.items()}
    )
    files.own_folder(file.parent)
    files.replace(file, msgspec.json.encode(with_leased_ports))
    return msgspec.to_builtins(inputs.supervision)


def read_declaration(folder: Path) -> Declaration | None:
    """Return the declaration of the experiment with this folder; None if it has none."""
    return experiment_folder.read_json(folder / DECLARED, Declaration)


def state(folder: Path) -> State:
    """Return the state that the supervisor of the experiment with this folder has saved."""
    return read_state(experiment_folder.content(folder / STATE))
