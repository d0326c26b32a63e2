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
IDENTITY = ("server", "session", "owner", "path")
inputs_of = inputs.window_inputs


def reason(old_inputs: Props, snapshot: Snapshot) -> str:
    """Return why a recorded process must be restarted, or an empty string."""
    server = old_inputs.get("server") or paths.DEFAULT_SERVER
    known = record.read(server, old_inputs["session"], old_inputs["path"])
    if known is None or known.get("owner") != old_inputs["owner"] or known.get("host") != host():
        return ""
    condition = observe.condition({**old_inputs, **known}, snapshot.listing(server))
    return "" if condition.is_good else condition.reason


def repairs(news: Props, old_inputs: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Return what `check` adds to the inputs of a window that the state has."""
    return {REASON: reason(old_inputs, snapshot)}


def create(props: Props, snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    """Adopt the same process of an interrupted run, or end what that run left and start the process."""
    props = _with_addresses(props)
    wanted = inputs.window_inputs(props)
    kept = _kept(props)
    experiment_folder.lock(wanted.server, wanted.session)
    outputs = _adopted(wanted, kept, snapshot) or _started(wanted, kept, 0, snapshot)
    return identifier(wanted), {**kept, **outputs}


def diff(olds: Props, news: Props, snapshot: Snapshot) -> Difference:
    """Return the changes of the inputs, and the reason to repair a failed or lost process."""
    _refuse_other_host(olds)
    changed = changes.changes(olds, news)
    if replaced := [name for name in changed if name in changes.REPLACED]:
        return Difference(tuple(changed), tuple(replaced))
    condition = observe.condition(olds, snapshot.listing(olds["server"]))
    if (olds.get("grace") or 0) != (news.get("grace") or 0):
        changed.append("grace")
    if not condition.is_good:
        changed.append("status")
    return Difference(tuple(changed), reason="" if condition.is_good else condition.reason)


def read(props: Props, snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the outputs with the current status; None if process and window no longer exist."""
    _refuse_other_host(props)
    condition = observe.condition(props, snapshot.listing(props["server"]))
    if condition.state == "lost":
        return None
    return {**props, **_numbers(props), "status": str(condition)}


def update(olds: Props, news: Props, snapshot: Snapshot) -> dict[str, Any]:
    """Restart the process in its window if its inputs need that; otherwise record the new inputs."""
    _refuse_other_host(olds)
    news = _with_addresses(news)
    wanted = inputs.window_inputs(news)
    kept = _kept(news)
    experiment_folder.lock(wanted.server, wanted.session)
    condition = observe.condition(olds, snapshot.listing(wanted.server))
    if condition.is_good and not changes.changes(olds, news):
        outputs = {**_numbers(olds), **start.place(wanted), "status": _status(condition)}
    else:
        outputs = _adopted(wanted, kept, snapshot, int(olds["attempt"])) or _started(
            wanted, kept, int(olds["attempt"]), snapshot
        )
    return {**kept, **outputs}


def delete(props: Props, snapshot: Snapshot) -> None:
    """End the process tree, and remove window and files; the log stays until the session goes."""
    _refuse_other_host(props)
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


def identifier(wanted: WindowInputs) -> str:
    return f"{wanted.server}/{wanted.session}/{wanted.path}"


def take_down(server: str, owner: str, path: str, grace: float, snapshot: Snapshot) -> None:
    """End the tree of a process, with its windows; after a fault there may be several."""
    panes = snapshot.panes(server, owner, path)
    live = [Identity(pane.pid, start_of(pane.pid)) for pane in panes if not pane.dead]
    stop.take_down([process for process in live if process.start], stop.marked(owner, path), grace)
    for pane in panes:
        _kill_pane(server, pane)
    snapshot.placed(server, owner, path, None)


def _adopted(wanted: WindowInputs, kept: Props, snapshot: Snapshot, after: int = 0) -> dict[str, Any] | None:
    """Return the outputs of a process that an interrupted run started from these inputs since then."""
    panes = snapshot.panes(wanted.server, wanted.owner, wanted.path)
    if len(panes) != 1 or panes[0].digest != changes.digest(kept) or panes[0].attempt <= after:
        return None
    pane = panes[0]
    if pane.dead and pane.exit_code != 0:
        return None
    if snapshot.listing(wanted.server).session(wanted.session) is None:
        return None
    outputs = {
        "window_id": pane.window_id,
        "pane_id": pane.pane_id,
        "pid": pane.pid,
        "start_time": 0 if pane.dead else start_of(pane.pid),
        "attempt": pane.attempt,
        "launched": pane.launched,
        "digest": pane.digest,
        **start.place(wanted),
        "status": "completed" if pane.dead else "running",
    }
    record.write({**kept, **outputs})
    return outputs


def _started(wanted: WindowInputs, kept: dict[str, Any], attempt: int, snapshot: Snapshot) -> dict[str, Any]:
    panes = snapshot.panes(wanted.server, wanted.owner, wanted.path)
    known = record.read(wanted.server, wanted.session, wanted.path) or {}
    if known.get("owner") != wanted.owner:
        known = {}
    last = max([attempt, int(known.get("attempt", 0)), *(pane.attempt for pane in panes)])
    if panes or known or wanted.path in snapshot.trees(wanted.owner):
        take_down(wanted.server, wanted.owner, wanted.path, wanted.grace, snapshot)
    index = next((pane.index for pane in panes if _is_in(pane, wanted, snapshot)), 0)
    return start.start(wanted, kept, last + 1, index, snapshot)


def _is_in(pane: Pane, wanted: WindowInputs, snapshot: Snapshot) -> bool:
    session = snapshot.listing(wanted.server).session(wanted.session)
    return session is not None and session.session_id == pane.session_id


def _kill_pane(server: str, pane: Pane) -> None:
    try:
        client.run(server, ["kill-pane", "-t", pane.pane_id])
    except client.TmuxError as error:
        if not isinstance(error, client.NoServer) and "can't find" not in error.what:
            raise


def _kept(props: Props) -> dict[str, Any]:
    """Return the inputs that are part of the outputs, without those that `check` added."""
    return {name: props[name] for name in WINDOW_INPUTS if props.get(name) is not None} | {
        "server": props.get("server") or paths.DEFAULT_SERVER
    }


def _with_addresses(props: Props) -> Props:
    """Return the inputs with the addresses that the session has: another may have leased a port."""
    services: Mapping[str, str] = props.get("services") or {}
    if not services:
        return props
    known = variables.read_services(props.get("server") or paths.DEFAULT_SERVER, props["session"])
    return {**props, "services": {name: known.get(name, value) for name, value in services.items()}}


def _numbers(props: Props) -> dict[str, Any]:
    """Return the old outputs with whole numbers, which Pulumi turns into floats."""
    result = {name: props[name] for name in ("window_id", "pane_id", "digest", "launched")}
    return result | {name: int(props[name]) for name in ("pid", "start_time", "attempt")}


def _status(condition: observe.Condition) -> str:
    return "running" if condition.state == "running" else "completed"


def _refuse_other_host(props: Props) -> None:
    refuse_other_host(props, str(props["path"]))


def refuse_other_host(props: Props, what: str) -> None:
    """Raise SymphonyError if the process runs on another machine, which cannot be observed."""
    inputs.refuse_strange_names(props)
    if props["host"] != host():
        raise SymphonyError(
            f"{what} was started on host {props['host']}, and this machine is {host()}",
            remedy=f"Run the command on {props['host']}; SYMPHONY_HOST keeps a renamed host's old name",
        )
