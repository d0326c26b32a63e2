"""The tmux backend's `observe`: the status of processes, from the state and a listing of the server."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from symphony.backends import following
from symphony.backends.observe import (
    LIMIT,
    PATIENCE,
    Link,
    Owned,
    Port,
    ProcessStatus,
    Recorded,
    Resource,
    Usage,
    not_created,
)
from symphony.backends.tmux.look import Look
from symphony.content.code_files import VARIABLE
from symphony.errors import SymphonyError, UserError
from symphony.paths import DEFAULT_SERVER, host
from symphony_tmux import names
from symphony_tmux.processes import observe
from symphony_tmux.processes.observe import Condition
from symphony_tmux.resource import changes
from symphony_tmux.tmux import client

SESSION_TYPE = "pulumi-python:dynamic/symphony_tmux:Session"
WINDOW_TYPE = "pulumi-python:dynamic/symphony_tmux:Window"
_GRACE = 5.0


def recorded(owner: str, resources: Sequence[Resource]) -> Recorded | None:
    """Return the experiment that the state records in tmux; None if it has no session and no window."""
    session: Mapping[str, Any] = {}
    windows: dict[str, Mapping[str, Any]] = {}
    for resource in resources:
        if resource.type == SESSION_TYPE:
            session = resource.outputs
        elif resource.type == WINDOW_TYPE:
            window = {**resource.inputs, **resource.outputs}
            if window["path"] == names.SUPERVISOR:
                continue
            windows[str(window["path"])] = {**window, "fingerprint": changes.fingerprint(window)}
    supervision: Mapping[str, Any] = session.get("supervision") or {}
    members: Mapping[str, Mapping[str, Any]] = supervision.get("members") or {}
    for path in windows.keys() & members.keys():
        is_probed = bool(members[path].get("readiness"))
        windows[path] = {**windows[path], "is_supervised": True, "is_probed": is_probed}
    nothing: Mapping[str, Any] = {}
    first = session or next(iter(windows.values()), nothing)
    if not first:
        return None
    name = str(session.get("name") or first.get("session"))
    return Recorded(
        owner,
        name,
        windows,
        str(first.get("host", "")),
        not_created=not_created(resources, windows),
    )


def statuses(recorded: Sequence[Recorded]) -> list[list[ProcessStatus]]:
    """Return the statuses of the processes of several experiments; every server is listed once."""
    look = Look()
    return [
        [_status(path, process, look) for path, process in experiment.processes.items()]
        or _orphans(experiment.owner, look)
        for experiment in recorded
    ]


def restart_reasons(recorded: Recorded) -> dict[str, str]:
    """Return path -> why the next `up` restarts a process whose settings did not change."""
    look = Look()
    reasons: dict[str, str] = {}
    for path, process in recorded.processes.items():
        listing = look.listing(str(process["server"]))
        if isinstance(listing, SymphonyError):
            raise listing
        condition = observe.condition(process, listing)
        if not condition.is_good:
            reasons[path] = condition.reason
    return reasons


def watch(
    recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses at once and after every change, until waiting longer would not help."""

    def starts(now: Sequence[ProcessStatus]) -> bool:
        """Return whether a process has yet to claim its GPUs, which takes a moment."""
        return any(status.why == names.NOT_CLAIMED for status in now)

    return following.watch(recorded, statuses, patience, limit, starts=starts)


logs = following.logs


def why(recorded: Recorded, path: str, name: str) -> Sequence[Link]:
    """Return the steps of a process to its state, up to the one where it stopped or waits."""
    # Imported here: only `why` needs it.
    from symphony.backends.tmux.diagnosis import chain

    process = recorded.processes.get(path)
    if process is None:
        return following.never_started(name)
    return list(chain(process, Look(), name))


def usage(recorded: Recorded) -> Mapping[str, Usage]:
    """Return path -> the resources that the process and its children use now."""
    # Imported only by commands that measure.
    from symphony.backends.tmux import usage as trees

    return trees.usage(_roots(recorded))


def ports(recorded: Recorded, wanted: Collection[int]) -> Mapping[int, Port]:
    """Return port -> the process that listens and the connected processes."""
    # Imported only by the command that uses it.
    from symphony.backends.tmux import usage as trees

    return trees.ports(_roots(recorded), wanted)


def _roots(recorded: Recorded) -> dict[str, int]:
    return {path: int(process["pid"]) for path, process in recorded.processes.items()}


def ensure_same_location(
    recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
) -> Recorded:
    """Raise UserError if the experiment was started on another machine."""
    if recorded.host not in ("", host()):
        raise UserError(
            f"{name} was started on {recorded.host}, and this machine is {host()}",
            remedy=f"Run this command on {recorded.host}; if this machine was renamed, set SYMPHONY_HOST to"
            " its old name",
        )
    return recorded


def list_owned() -> Sequence[Owned]:
    """Return every session with its running processes; servers that do not answer are skipped."""
    from symphony_tmux import experiment_folder

    experiments: list[Owned] = []
    for server in sorted({DEFAULT_SERVER}.union(*map(experiment_folder.servers, experiment_folder.owners()))):
        with suppress(SymphonyError):
            listing = client.list_panes(server)
            for session in listing.sessions:
                panes = [pane for pane in listing.panes if pane.owner == session.owner and not pane.dead]
                paths = tuple(sorted({pane.path for pane in panes} - {names.SUPERVISOR}))
                logs = {path: str(names.process_folder(server, session.name, path) / "log") for path in paths}
                experiments.append(Owned(session.owner, session.name, paths, logs=logs))
    return experiments


def stop_removed(owner: str, declared: Collection[str]) -> int:
    """End the processes of a killed run that no state records; return their number.

    declared: the paths of the processes to keep. The engine ends the recorded ones that are not declared.
    """
    from symphony_tmux.processes.snapshot import Snapshot
    from symphony_tmux.resource import windows

    ended = 0
    for server in _answering_servers(owner):
        snapshot = Snapshot()
        for path in sorted(snapshot.paths(server, owner) - {*declared, names.SUPERVISOR}):
            windows.take_down(server, owner, path, _GRACE, snapshot)
            ended += 1
    return ended


def order_windows(owner: str, paths: Sequence[str]) -> None:
    """Put the windows of an experiment in this order."""
    from symphony_tmux import experiment_folder
    from symphony_tmux.tmux import server

    for name in sorted(experiment_folder.servers(owner)):
        server.order_windows(name, owner, paths)


def delete_owned(owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
    """Delete the session and processes of an owner, recorded or not; return how many processes ran."""
    # Imported here: only a deletion needs the modules that change tmux.
    from symphony import paths
    from symphony_tmux import experiment_folder
    from symphony_tmux.processes.snapshot import Snapshot
    from symphony_tmux.resource import sessions

    stopped: set[str] = set()
    for server in _answering_servers(owner):
        snapshot = Snapshot()
        orphans = snapshot.paths(server, owner)
        session = snapshot.listing(server).session(physical_name)
        folder = paths.experiment_folder(server, physical_name)
        if (
            orphans
            or (session is not None and session.owner == owner)
            or experiment_folder.owner_of(folder) == owner
        ):
            props = {"name": physical_name, "owner": owner, "server": server, "host": host()}
            sessions.delete(props, Snapshot())
        stopped |= orphans
    return len(stopped)


def _answering_servers(owner: str) -> Iterator[str]:
    """Yield each server that may have processes of an owner, once it answers."""
    from symphony_tmux import experiment_folder

    for server in sorted({DEFAULT_SERVER, *experiment_folder.servers(owner)}):
        # The server may still be busy with the ends of thousands of processes.
        client.expect_answer(server)
        yield server


def _orphans(owner: str, look: Look) -> list[ProcessStatus]:
    """Return the running processes that an interrupted deletion left, whose windows the state has lost."""
    # Imported here: few experiments have no processes.
    from symphony_tmux.processes import record

    statuses = [_status(process["path"], process, look) for process in record.of_owner(owner)]
    return [status for status in statuses if status.state == "running"]


def _status(path: str, process: Mapping[str, Any], look: Look) -> ProcessStatus:
    listing = look.listing(str(process["server"]))
    if isinstance(listing, SymphonyError):
        return ProcessStatus(path, "unknown", ready=False, why=f"{listing.what}. {listing.remedy}")
    condition = observe.condition(process, listing)
    services: Mapping[str, str] = process.get("services") or {}
    status = replace(_status_of(path, process, condition, look), code=services.get(VARIABLE, ""))
    # Even without a policy a process may restart: its own supervisor restarts it if its port was in use, and
    # the experiment's supervisor restarts it together with another process.
    may_restart = process.get("is_supervised") or any(name.endswith("_BIND") for name in services)
    if not process.get("restart_policy") and not (may_restart and status.state == "running"):
        return status
    from symphony.backends import process_logs

    restarting = process_logs.starting_again(status, str(process["log"]), int(process["attempt"]))
    return restarting if process.get("restart_policy") or restarting.state == "running" else status


def _status_of(path: str, process: Mapping[str, Any], condition: Condition, look: Look) -> ProcessStatus:
    launched = float(process["launched"]) if process.get("launched") else None
    if condition.state in ("running", "stopped") and names.is_held(str(process["log"])):
        return _held(path, process, launched, look)
    if condition.state == "running" and (holder := observe.waits_for(process)):
        return ProcessStatus(path, "waiting", ready=False, why=holder)
    why = condition.reason or observe.log_trouble(str(process["log"]))
    not_ready = ""
    if condition.state == "running" and condition.pane is not None:
        not_ready = look.why_not_ready(process, condition.pane)
    status = ProcessStatus(
        path=path,
        state="unknown" if condition.state == "elsewhere" else condition.state,
        ready=condition.state == "running" and not not_ready,
        why="; ".join(filter(None, (not_ready, why))),
        since=_since(condition, launched),
        pid=(observe.program(process) or None) if condition.state == "running" else None,
    )
    if condition.state not in ("completed", "failed"):
        return status
    # Imported here: running processes need neither the logs nor the modules that read them.
    from symphony.backends.tmux import diagnosis

    return diagnosis.with_end_reason(status, condition.pane, process)


def _held(path: str, process: Mapping[str, Any], launched: float | None, look: Look) -> ProcessStatus:
    """Return the status of a process that waits, is blocked, or was stopped with its experiment."""
    # Imported here: few experiments declare an order or an end.
    from symphony_tmux.processes import hold

    held = hold.read_if_held(process)
    if held is None or (held.is_over and look.has_supervisor(process)):
        # The process was released a moment ago, or is about to be.
        return ProcessStatus(path, "running", ready=False, since=launched)
    since = hold.shown_since(held) or launched
    if held.state == "stopped" and held.stopped == "completed":
        return ProcessStatus(path, "completed", ready=False, why=f"stopped: {held.why}", since=since)
    why = held.why
    if held.state == "waiting" and not look.has_supervisor(process):
        why = f"{why}; the window {names.SUPERVISOR} is gone; `symphony up` opens it again"
    return ProcessStatus(path, held.state, ready=False, why=why, since=since, waits_for=held.waits())


def _since(condition: Condition, launched: float | None) -> float | None:
    """Return when the state began; None for a lost process."""
    if condition.state in ("completed", "failed") and condition.pane is not None and condition.pane.ended:
        return float(condition.pane.ended)
    return launched if condition.state == "running" else None
