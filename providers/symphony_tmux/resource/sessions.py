"""Creates, diffs, reads, updates and deletes the session of an experiment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from symphony import files, paths
from symphony.errors import UserError
from symphony_dynamic.provider import ORPHANS, REASON, Difference
from symphony_tmux import experiment_folder, leases, variables
from symphony_tmux.experiment_folder import KINDS
from symphony_tmux.processes import observe, process_table, stop
from symphony_tmux.processes.process_table import Identity
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import inputs, supervised, windows
from symphony_tmux.resource.inputs import SessionInputs
from symphony_tmux.tmux import server

Props = Mapping[str, Any]
# CrudProvider.check validates with inputs_of, and calls repairs only if IDENTITY is as in the state.
IDENTITY = ("name", "owner", "server")
inputs_of = inputs.session_inputs


def reason(old_inputs: Props, snapshot: Snapshot) -> str:
    """Return why a recorded session needs repair, or an empty string.

    If only the file with its service addresses is missing, `update` writes it and keeps the session.
    """
    server_name = old_inputs.get("server") or paths.DEFAULT_SERVER
    if why := observe.session_reason(old_inputs, snapshot.listing(server_name)):
        return why
    exists = variables.has_services(server_name, old_inputs["name"], old_inputs.get("services") or {})
    return "" if exists else "the file with its service addresses is missing or damaged"


def orphans(declared: Props, old_inputs: Props, snapshot: Snapshot) -> list[str]:
    """Return the processes with a window, or still running, that are neither declared nor in the state."""
    recorded = {*(declared.get("processes") or ()), *(old_inputs.get("processes") or ())}
    return sorted(
        snapshot.paths(declared.get("server") or paths.DEFAULT_SERVER, declared["owner"]) - recorded
    )


def repairs(news: Props, old_inputs: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Return the inputs that Pulumi's `check` adds: why a recorded session needs repair, and its orphans.

    REASON only makes the engine call `diff`, which must find that reason itself.
    """
    return {REASON: reason(old_inputs, snapshot), ORPHANS: orphans(news, old_inputs, snapshot)}


def create(props: Props, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    """Create or adopt the session; end processes of an interrupted run that are not declared."""
    spec = inputs.session_inputs(props)
    # Held until this process ends.
    experiment_folder.lock(spec.server, spec.name)
    return f"{spec.server}/{spec.name}", _create(spec, time.time(), snapshot)


def diff(olds: Props, news: Props, snapshot: Snapshot) -> Difference:
    """Return the changes; a missing session is created again.

    A change of services restarts processes through the changes of their windows.
    """
    windows.refuse_other_host(olds, f"experiment {olds['name']}")
    if replaced := tuple(name for name in IDENTITY if olds.get(name) != news.get(name)):
        return Difference(replaced, replaced)
    changed: list[str] = []
    if olds.get("grace") != news.get("grace"):
        changed.append("grace")
    services: Mapping[str, str] = news.get("services") or {}
    has_services = variables.has_services(olds["server"], olds["name"], services)
    if services != (olds.get("services") or {}) or not has_services:
        changed.append("services")
    ports = inputs.ports_of(olds)
    if ports != inputs.ports_of(news) or ports != leases.ports_of(olds["owner"]):
        changed.append("ports")
    if inputs.supervision_of(olds) != inputs.supervision_of(news):
        changed.append("supervision")
    folder = paths.experiment_folder(str(olds["server"]), str(olds["name"]))
    changed += [
        kind for kind in KINDS if not experiment_folder.are_copied(folder / kind, news.get(kind) or ())
    ]
    if observe.session_reason(olds, snapshot.listing(olds["server"])):
        changed.append("session_id")
    if news.get(ORPHANS):
        changed.append(ORPHANS)
    return Difference(tuple(changed))


def read(props: Props, snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the outputs; None if the session no longer exists."""
    windows.refuse_other_host(props, f"experiment {props['name']}")
    if observe.session_reason(props, snapshot.listing(props["server"])):
        return None
    return {**props, "server_pid": int(props["server_pid"])}


def update(olds: Props, news: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Re-create a missing session, write its files and leases, and end undeclared, unrecorded processes."""
    windows.refuse_other_host(olds, f"experiment {olds['name']}")
    spec = inputs.session_inputs(news)
    experiment_folder.lock(spec.server, spec.name)
    exists = not observe.session_reason(olds, snapshot.listing(spec.server))
    return _create(
        spec, float(olds["created"]) if exists else time.time(), snapshot, set(olds.get("processes") or [])
    )


def delete(props: Props, snapshot: Snapshot) -> None:
    """End all processes together, with their grace, and remove the session, its files and port leases."""
    windows.refuse_other_host(props, f"experiment {props['name']}")
    name, owner, server_name = str(props["name"]), str(props["owner"]), str(props["server"])
    experiment_folder.lock(server_name, name)
    snapshot.forget(server_name)
    folder = paths.experiment_folder(server_name, name)
    experiment_folder.repair_owner(folder, owner)
    listing = snapshot.listing(server_name)
    supervisors = {
        Identity(pane.pid, process_table.start_of(pane.pid))
        for pane in listing.panes
        if pane.owner == owner and not pane.dead
    }
    # An experiment that no state records has no declared grace.
    grace = float(props.get("grace", 5))
    stop.take_down(
        {supervisor for supervisor in supervisors if supervisor.start}, stop.marker_filter(owner), grace
    )
    session = listing.session(name)
    if session is not None and session.owner == owner:
        server.kill_session(server_name, session.session_id, len(supervisors))
    if owner in (experiment_folder.owner_of(folder), session.owner if session is not None else ""):
        files.remove(folder)
    leases.release(owner)
    experiment_folder.remove_lock(server_name, name)
    snapshot.forget(server_name)


def _create(
    spec: SessionInputs, created: float, snapshot: Snapshot, recorded: set[str] | None = None
) -> dict[str, Any]:
    session = server.ensure_session(spec.server, spec.name, spec.owner, snapshot)
    for path in sorted(snapshot.paths(spec.server, spec.owner) - {*spec.processes, *(recorded or ())}):
        windows.take_down(spec.server, spec.owner, path, spec.grace, snapshot)
    ports = _lease_ports(spec)
    services = variables.with_ports(spec.services, spec.ports, ports)
    variables.write_services(spec.server, spec.name, services)
    folder = paths.experiment_folder(spec.server, spec.name)
    for kind in KINDS:
        experiment_folder.copy_files(folder / kind, getattr(spec, kind))
    supervision = supervised.write(spec, ports)
    return {
        **{name: getattr(spec, name) for name in SessionInputs.__struct_fields__},
        "supervision": supervision,
        **{name: list(getattr(spec, name)) for name in ("fixed_ports", *KINDS)},
        "port_range": list(spec.port_range) if spec.port_range else None,
        "services": services,
        "ports": ports,
        "processes": list(spec.processes),
        "session_id": session.session_id,
        "socket": str(paths.tmux_socket(spec.server)),
        "server_pid": snapshot.listing(spec.server).server_pid,
        "host": process_table.host(),
        "boot_id": process_table.boot_id(),
        "created": created,
    }


def _lease_ports(spec: SessionInputs) -> dict[str, int]:
    """Lease the ports for the life of the experiment; a chosen one that is in use by now is replaced."""
    requested = {name: port if name in spec.fixed_ports else None for name, port in spec.ports.items()}
    leased = leases.lease(spec.owner, requested, within=spec.port_range)
    if leased.refused:
        service, reason = next(iter(leased.refused.items()))
        if requested[service] is None:
            what, remedy = "gets no port", "Free some ports, or widen port_range=(first, last)"
        else:
            what, remedy = "cannot have the port that is set for it", "Free that port, or set another"
        raise UserError(f"service {service} {what}: {reason}", where=spec.name, remedy=remedy)
    return leased.ports
