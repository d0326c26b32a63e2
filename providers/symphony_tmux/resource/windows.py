"""Creates, diffs, reads, updates and deletes the window of a process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from symphony import files, paths
from symphony.errors import SymphonyError
from symphony_dynamic.provider import REASON, Difference
from symphony_tmux import experiment_folder, names, variables
from symphony_tmux.processes import hold, launch_file, observe, record, start, stop
from symphony_tmux.processes.process_table import Identity, host, start_of
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import changes, inputs
from symphony_tmux.resource.inputs import WINDOW_INPUTS, WindowInputs
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import Pane

Props = Mapping[str, Any]
# CrudProvider.check validates with inputs_of, and calls repairs only if IDENTITY is as in the state.
IDENTITY = ("server", "session", "owner", "path")
inputs_of = inputs.window_inputs


def reason(old_inputs: Props, snapshot: Snapshot) -> str:
    """Return why a recorded process must be restarted, or an empty string."""
    server = old_inputs.get("server") or paths.DEFAULT_SERVER
    recorded = record.read(server, old_inputs["session"], old_inputs["path"])
    if recorded is None or recorded.get("owner") != old_inputs["owner"] or recorded.get("host") != host():
        return ""
    condition = observe.condition({**old_inputs, **recorded}, snapshot.listing(server))
    return "" if condition.is_good else condition.reason


def repairs(news: Props, old_inputs: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Return the inputs that Pulumi's `check` adds: why a recorded window must be repaired."""
    return {REASON: reason(old_inputs, snapshot)}


def create(props: Props, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    """Adopt the process of an interrupted run, or end its remains and start the process."""
    props = _with_addresses(props)
    spec = inputs.window_inputs(props)
    recorded_inputs = _repeated_inputs(props)
    experiment_folder.lock(spec.server, spec.session)
    outputs = _adopt(spec, recorded_inputs, snapshot) or _start(spec, recorded_inputs, 0, snapshot)
    return f"{spec.server}/{spec.session}/{spec.path}", {**recorded_inputs, **outputs}


def diff(olds: Props, news: Props, snapshot: Snapshot) -> Difference:
    """Return the changes of the inputs, and `status` for a process that needs repair."""
    refuse_other_host(olds, str(olds["path"]))
    changed = changes.changes(olds, news)
    if replaced := [name for name in changed if name in changes.REPLACED]:
        return Difference(tuple(changed), tuple(replaced))
    condition = observe.condition(olds, snapshot.listing(olds["server"]))
    if (olds.get("grace") or 0) != (news.get("grace") or 0):
        changed.append("grace")
    if not condition.is_good:
        changed.append("status")
    return Difference(tuple(changed))


def read(props: Props, snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the outputs with the current status; None if the process is lost."""
    refuse_other_host(props, str(props["path"]))
    condition = observe.condition(props, snapshot.listing(props["server"]))
    if condition.state == "lost":
        return None
    return {**props, **_start_outputs(props), "status": str(condition)}


def update(olds: Props, news: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Start the process again if its inputs or its state need that; otherwise record the new inputs."""
    refuse_other_host(olds, str(olds["path"]))
    news = _with_addresses(news)
    spec = inputs.window_inputs(news)
    recorded_inputs = _repeated_inputs(news)
    experiment_folder.lock(spec.server, spec.session)
    condition = observe.condition(olds, snapshot.listing(spec.server))
    if condition.is_good and not changes.changes(olds, news):
        status = "running" if condition.state == "running" else "completed"
        outputs = {**_start_outputs(olds), **start.place(spec), "status": status}
    else:
        outputs = _adopt(spec, recorded_inputs, snapshot, int(olds["attempt"])) or _start(
            spec, recorded_inputs, int(olds["attempt"]), snapshot
        )
    return {**recorded_inputs, **outputs}


def delete(props: Props, snapshot: Snapshot) -> None:
    """End the process tree, and remove window and files; the session keeps the log."""
    refuse_other_host(props, str(props["path"]))
    server, session, owner, path = (str(props[name]) for name in ("server", "session", "owner", "path"))
    experiment_folder.lock(server, session)
    take_down(server, owner, path, float(props.get("grace", 5)), snapshot)
    if experiment_folder.owner_of(paths.experiment_folder(server, session)) != owner:
        return
    folder = names.process_folder(server, session, path)
    for name in (
        names.LAUNCH_FILE,
        variables.SECRETS,
        launch_file.FAILED_LINES,
        start.PIPE,
        hold.NAME,
        start.RESTART,
        record.NAME,
    ):
        with suppress(OSError):
            files.remove(folder / name)


def take_down(server: str, owner: str, path: str, grace: float, snapshot: Snapshot) -> None:
    """End the tree of a process and remove its windows; after a fault there may be several."""
    panes = snapshot.panes(server, owner, path)
    live = [Identity(pane.pid, start_of(pane.pid)) for pane in panes if not pane.dead]
    stop.take_down([process for process in live if process.start], stop.marker_filter(owner, path), grace)
    for pane in panes:
        _kill_pane(server, pane)
    snapshot.set_pane(server, owner, path, None)


def _adopt(
    spec: WindowInputs, recorded_inputs: Props, snapshot: Snapshot, after: int = 0
) -> dict[str, Any] | None:
    """Return the outputs of a process that an interrupted run has started from these inputs, else None."""
    panes = snapshot.panes(spec.server, spec.owner, spec.path)
    if len(panes) != 1 or panes[0].digest != changes.digest(recorded_inputs) or panes[0].attempt <= after:
        return None
    pane = panes[0]
    if pane.dead and pane.exit_code != 0:
        return None
    if snapshot.listing(spec.server).session(spec.session) is None:
        return None
    return start.record_start(spec, recorded_inputs, pane)


def _start(
    spec: WindowInputs, recorded_inputs: dict[str, Any], attempt: int, snapshot: Snapshot
) -> dict[str, Any]:
    panes = snapshot.panes(spec.server, spec.owner, spec.path)
    recorded = record.read(spec.server, spec.session, spec.path) or {}
    if recorded.get("owner") != spec.owner:
        recorded = {}
    last = max([attempt, int(recorded.get("attempt", 0)), *(pane.attempt for pane in panes)])
    if panes or recorded or spec.path in snapshot.trees(spec.owner):
        take_down(spec.server, spec.owner, spec.path, spec.grace, snapshot)
    index = next((pane.index for pane in panes if _is_in(pane, spec, snapshot)), 0)
    return start.start(spec, recorded_inputs, last + 1, index, snapshot)


def _is_in(pane: Pane, spec: WindowInputs, snapshot: Snapshot) -> bool:
    session = snapshot.listing(spec.server).session(spec.session)
    return session is not None and session.session_id == pane.session_id


def _kill_pane(server: str, pane: Pane) -> None:
    try:
        client.run(server, ["kill-pane", "-t", pane.pane_id])
    except client.TmuxError as error:
        if not isinstance(error, client.NoServer) and "can't find" not in error.what:
            raise


def _repeated_inputs(props: Props) -> dict[str, Any]:
    return {name: props[name] for name in WINDOW_INPUTS if props.get(name) is not None} | {
        "server": props.get("server") or paths.DEFAULT_SERVER
    }


def _with_addresses(props: Props) -> Props:
    """Return the inputs with the session's addresses, whose ports may differ from the plan."""
    services: Mapping[str, str] = props.get("services") or {}
    if not services:
        return props
    server_name, session = props.get("server") or paths.DEFAULT_SERVER, props["session"]
    file = variables.services_file(server_name, session)
    # A shell would wait for ever at a pipe in its place.
    if not file.is_file() or file.is_symlink():
        what = f"{file.name}, the file with the addresses of {session}, is missing or was replaced"
        remedy = f"Run `symphony up {paths.stack_of(str(props['owner']))}`, which writes it again"
        raise SymphonyError(what, where=str(file), remedy=remedy)
    recorded = variables.read_services(server_name, session)
    return {**props, "services": {name: recorded.get(name, value) for name, value in services.items()}}


def _start_outputs(props: Props) -> dict[str, Any]:
    """Return the outputs of a start, with integers, which Pulumi converts to floats."""
    result = {name: props[name] for name in ("window_id", "pane_id", "digest", "launched")}
    return result | {name: int(props[name]) for name in ("pid", "start_time", "attempt")}


def refuse_other_host(props: Props, what: str) -> None:
    """Raise SymphonyError if the state has an invalid name or is of another machine."""
    inputs.refuse_invalid_names(props)
    if props["host"] != host():
        raise SymphonyError(
            f"{what} was started on host {props['host']}, and this machine is {host()}",
            remedy=f"Run the command on {props['host']}; if this machine was renamed, set SYMPHONY_HOST to"
            " its old name",
        )
