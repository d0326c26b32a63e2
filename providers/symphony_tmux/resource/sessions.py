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
from symphony_tmux.resource.inputs import SESSION_INPUTS, SessionInputs
from symphony_tmux.tmux import server

Props = Mapping[str, Any]
IDENTITY = ("name", "owner", "server")
inputs_of = inputs.session_inputs


def reason(old_inputs: Props, snapshot: Snapshot) -> str:
    """Return the reason to re-create a recorded session, or an empty string."""
    on = old_inputs.get("server") or paths.DEFAULT_SERVER
    if why := observe.session_reason(old_inputs, snapshot.listing(on)):
        return why
    there = variables.has_services(on, old_inputs["name"], old_inputs.get("services") or {})
    return "" if there else "the file with its service addresses is missing or damaged"


def orphans(declared: Props, old_inputs: Props, snapshot: Snapshot) -> list[str]:
    """Return the running processes of the experiment that neither the program nor the state has."""
    known = {*(declared.get("processes") or ()), *(old_inputs.get("processes") or ())}
    return sorted(snapshot.paths(declared.get("server") or paths.DEFAULT_SERVER, declared["owner"]) - known)


def repairs(news: Props, old_inputs: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Return what `check` adds to the inputs of a session that the state has."""
    return {REASON: reason(old_inputs, snapshot), ORPHANS: orphans(news, old_inputs, snapshot)}


def create(props: Props, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    """Create or adopt the session; end processes of an interrupted run that are not declared."""
    wanted = inputs.session_inputs(props)
    experiment_folder.lock(wanted.server, wanted.name)
    return f"{wanted.server}/{wanted.name}", _made(wanted, time.time(), snapshot)


def diff(olds: Props, news: Props, snapshot: Snapshot) -> Difference:
    """Return the difference: a missing session is created again, and processes may come and go.

    A change of services restarts nothing here: the windows of processes that use them change themselves.
    """
    windows.refuse_other_host(olds, f"experiment {olds['name']}")
    if replaced := tuple(name for name in IDENTITY if olds.get(name) != news.get(name)):
        return Difference(replaced, replaced)
    changed: list[str] = []
    if olds.get("grace") != news.get("grace"):
        changed.append("grace")
    if not _tells(olds, news.get("services") or {}):
        changed.append("services")
    if inputs.ports_of(olds) != inputs.ports_of(news) or leases.of(olds["owner"]) != inputs.ports_of(olds):
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
    """Re-create a missing session, and end processes that are not declared."""
    windows.refuse_other_host(olds, f"experiment {olds['name']}")
    wanted = inputs.session_inputs(news)
    experiment_folder.lock(wanted.server, wanted.name)
    there = not observe.session_reason(olds, snapshot.listing(wanted.server))
    return _made(
        wanted, float(olds["created"]) if there else time.time(), snapshot, set(olds.get("processes") or [])
    )


def delete(props: Props, snapshot: Snapshot) -> None:
    """End every process at once, and remove the session, its files and port leases if they exist."""
    windows.refuse_other_host(props, f"experiment {props['name']}")
    name, owner, on = str(props["name"]), str(props["owner"]), str(props["server"])
    experiment_folder.lock(on, name)
    snapshot.forget(on)
    folder = paths.experiment_folder(on, name)
    experiment_folder.repair_owner(folder, owner)
    listing = snapshot.listing(on)
    supervisors = {
        Identity(pane.pid, process_table.start_of(pane.pid))
        for pane in listing.panes
        if pane.owner == owner and not pane.dead
    }
    grace = float(props.get("grace", 5))
    stop.take_down({supervisor for supervisor in supervisors if supervisor.start}, stop.marked(owner), grace)
    session = listing.session(name)
    if session is not None and session.owner == owner:
        server.kill_session(on, session.session_id, len(supervisors))
    if owner in (experiment_folder.owner_of(folder), session.owner if session is not None else ""):
        files.remove(folder)
    leases.release(owner)
    experiment_folder.remove_lock(on, name)
    snapshot.forget(on)


def _tells(olds: Props, services: Mapping[str, str]) -> bool:
    """Return whether the state and the file have exactly these services."""
    return services == (olds.get("services") or {}) and variables.has_services(
        olds["server"], olds["name"], services
    )


def _made(
    wanted: SessionInputs, created: float, snapshot: Snapshot, known: set[str] | None = None
) -> dict[str, Any]:
    session = server.ensure_session(wanted.server, wanted.name, wanted.owner, snapshot)
    for path in sorted(snapshot.paths(wanted.server, wanted.owner) - {*wanted.processes, *(known or ())}):
        windows.take_down(wanted.server, wanted.owner, path, wanted.grace, snapshot)
    ports = _leased(wanted)
    services = variables.with_ports(wanted.services, wanted.ports, ports)
    variables.write_services(wanted.server, wanted.name, services)
    folder = paths.experiment_folder(wanted.server, wanted.name)
    for kind in KINDS:
        experiment_folder.copy_files(folder / kind, getattr(wanted, kind))
    supervision = supervised.write(wanted, ports)
    return {
        **{name: getattr(wanted, name) for name in SESSION_INPUTS},
        "supervision": supervision,
        **{name: list(getattr(wanted, name)) for name in ("fixed_ports", *KINDS)},
        "port_range": list(wanted.port_range) if wanted.port_range else None,
        "services": services,
        "ports": ports,
        "processes": list(wanted.processes),
        "session_id": session.session_id,
        "socket": str(paths.tmux_socket(wanted.server)),
        "server_pid": snapshot.listing(wanted.server).server_pid,
        "host": process_table.host(),
        "boot_id": process_table.boot_id(),
        "created": created,
    }


def _leased(wanted: SessionInputs) -> dict[str, int]:
    """Lease the ports for the life of the experiment; a port that was taken meanwhile is replaced."""
    asked = {name: port if name in wanted.fixed_ports else None for name, port in wanted.ports.items()}
    leased = leases.lease(wanted.owner, asked, record=True, within=wanted.port_range)
    if leased.taken:
        service, reason = next(iter(leased.taken.items()))
        raise UserError(
            f"service {service} cannot have its port: {reason}",
            where=wanted.name,
            remedy="Choose another port, or stop the program that uses it",
        )
    return leased.ports
