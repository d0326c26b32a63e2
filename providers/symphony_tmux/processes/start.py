"""Starts a process in a tmux window and returns the outputs of its Pulumi resource."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from symphony import files, paths
from symphony.errors import UserError
from symphony_tmux import experiment_folder, gpus, names, variables
from symphony_tmux.processes import hold, launch_file, process_table, record
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.resource import changes
from symphony_tmux.resource.inputs import WindowInputs
from symphony_tmux.tmux import client, server
from symphony_tmux.tmux.client import Pane

SUPERVISE_SCRIPT = Path(__file__).with_name("supervise.pl")
LOG_CAP = 100 * 1024 * 1024
STARTED = "#{window_id} #{pane_id} #{pane_pid} #{session_id} #{window_index}"
PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
PIPE = "pipe"
# While this file exists, the supervisor ends the process; then the restart policy decides.
RESTART = "restart"
# The restart policy of supervise.pl that is Always without a limit on failures.
FOREVER = "Forever"
TRIES = 5


def start(
    inputs: WindowInputs, props: dict[str, Any], attempt: int, index: int, snapshot: Snapshot
) -> dict[str, Any]:
    """Start the process in a new window, at this index if it is free (0: any), and return the outputs."""
    folder = _prepare(inputs, attempt)
    digest, launched = changes.digest(props), time.time()
    pane_option = client.process_option(inputs.owner, inputs.path, attempt, launched, digest)
    # Not respawn-pane: tmux 3.3a then closes the new pane as soon as its output is piped.
    window_id, pane_id, pid, session_id, window_index = _new_window(
        inputs, attempt, pane_option, folder, index, snapshot
    ).split()
    own = (inputs.owner, inputs.path, attempt, launched, digest)
    pane = Pane(session_id, window_id, pane_id, int(window_index), int(pid), False, None, None, 0, *own)
    snapshot.set_pane(inputs.server, inputs.owner, inputs.path, pane)
    return record_start(inputs, props, pane)


def record_start(inputs: WindowInputs, props: Mapping[str, Any], pane: Pane) -> dict[str, Any]:
    """Write the record of a process that runs, or has completed, in a pane; return the outputs."""
    outputs = {
        "window_id": pane.window_id,
        "pane_id": pane.pane_id,
        "pid": pane.pid,
        "start_time": 0 if pane.dead else process_table.start_of(pane.pid),
        "attempt": pane.attempt,
        "launched": pane.launched,
        "digest": pane.digest,
        **place(inputs),
        "status": "completed" if pane.dead else "running",
    }
    record.write({**props, **outputs})
    return outputs


def place(inputs: WindowInputs) -> dict[str, Any]:
    """Return the outputs that describe where the process runs."""
    return {
        "boot_id": process_table.boot_id(),
        "host": process_table.host(),
        "log": str(names.process_folder(inputs.server, inputs.session, inputs.path) / "log"),
        "socket": str(paths.tmux_socket(inputs.server)),
    }


def _prepare(inputs: WindowInputs, attempt: int) -> Path:
    if inputs.cwd and not Path(inputs.cwd).is_dir():
        raise UserError(
            f"the start folder {inputs.cwd} does not exist", where=inputs.path, remedy="Create it"
        )
    code = inputs.unchanged_code()
    folder = names.process_folder(inputs.server, inputs.session, inputs.path)
    for place in (folder.parents[1], folder.parent, folder):
        files.fresh_folder(place)
    marker = names.marker(inputs.owner, inputs.path, attempt)
    secrets = folder / variables.SECRETS
    sourced = [
        variables.services_file(inputs.server, inputs.session),
        *([secrets] if inputs.secret_env else []),
    ]
    content = launch_file.content(inputs, marker, launch_file.caller(), sourced, folder)
    files.create(folder / names.LAUNCH_FILE, content)
    if inputs.secret_env:
        variables.write(secrets, inputs.secret_env)
    else:
        files.remove(secrets)
    if inputs.waits_for:
        if not perl():
            remedy = "Install perl, or remove depends_on"
            raise UserError(
                "perl is not installed, and depends_on needs it in tmux", where=inputs.path, remedy=remedy
            )
        hold.write(folder, hold.first(inputs.waits_for, code))
    else:
        files.remove(folder / hold.NAME)
    files.remove(folder / RESTART)
    # A killed start may have left it.
    files.remove(folder / gpus.NOTE)
    files.touch(folder / "log")
    files.remove(folder / PIPE)
    os.mkfifo(folder / PIPE, 0o600)
    return folder.relative_to(paths.home())


def _new_window(
    inputs: WindowInputs, attempt: int, pane_option: str, folder: Path, index: int, snapshot: Snapshot
) -> str:
    for try_number in range(TRIES):
        session = server.ensure_session(inputs.server, inputs.session, inputs.owner, snapshot)
        if try_number or not index:
            index = snapshot.next_index(inputs.server, session.session_id)
        try:
            return _new_window_at(f"{session.session_id}:{index}", inputs, attempt, pane_option, folder)
        except client.TmuxError as error:
            is_session_lost = isinstance(error, client.NoServer) or "can't find" in error.what
            if try_number == TRIES - 1 or not (is_session_lost or "in use" in error.what):
                raise
            if is_session_lost:
                snapshot.forget(inputs.server)
    raise AssertionError


def _new_window_at(target: str, inputs: WindowInputs, attempt: int, pane_option: str, folder: Path) -> str:
    marker = names.marker(inputs.owner, inputs.path, attempt)
    window = ["new-window", "-d", "-t", target, "-n", names.window_name(inputs.path)]
    window += ["-e", f"{names.MARKER}={marker}", *_pane_command(inputs, attempt, folder)]
    # In one call, so that tmux reads no output of the process before it is recorded.
    commands = [
        window,
        ["set-option", "-p", "-t", target, "@symphony_process", pane_option],
        ["pipe-pane", "-t", target, _record_command(folder)],
        ["display-message", "-p", "-t", target, STARTED],
    ]
    return client.run(inputs.server, client.join(commands))


def _pane_command(inputs: WindowInputs, attempt: int, folder: Path) -> list[str]:
    """Return the command of the pane; paths are relative to the home of symphony."""
    interpreter = perl()
    if not interpreter:
        return [launch_file.shell(inputs), str(folder / names.LAUNCH_FILE)]
    # Without the experiment's own supervisor, processes with dependencies would wait for ever.
    policy = FOREVER if inputs.path == names.SUPERVISOR else inputs.restart_policy
    return [
        interpreter,
        _installed_supervisor(paths.home()),
        str(folder),
        str(attempt),
        launch_file.shell(inputs),
        str(_cap()),
        policy,
        str(inputs.grace),
        os.uname().machine,
        *map(str, sorted(variables.bound_ports(inputs.services))),
    ]


def _record_command(folder: Path) -> str:
    """Return the shell command that receives the pane's output; tmux expands it, so it has only safe names.

    It opens the pipe for reading, too, until it has written its pid: otherwise the open would block for ever
    if the supervisor has just been killed.
    """
    if not perl():
        return f"exec cat >>{folder}/log"
    return f"exec 2>/dev/null 3<>{folder}/{PIPE} >{folder}/{PIPE}; echo $$; exec cat 3<&-"


@lru_cache(maxsize=1)
def perl() -> str:
    """Return the path of perl, which runs supervise.pl; empty if there is none or its path needs quotes."""
    program = shutil.which("perl") or ""
    return program if PLAIN.fullmatch(program) else ""


@lru_cache(maxsize=8)
def _installed_supervisor(home: Path) -> str:
    """Copy the supervisor to a path that needs no quoting and depends on its version, and return the path."""
    content = SUPERVISE_SCRIPT.read_bytes()
    name = f"supervise-{hashlib.sha256(content).hexdigest()[:8]}.pl"
    target = home / "tmux" / name
    if experiment_folder.content(target) != content:
        files.replace(target, content)
    return f"tmux/{name}"


def _cap() -> int:
    chosen = os.environ.get("SYMPHONY_LOG_CAP", "")
    return int(chosen) if chosen.isdigit() and int(chosen) >= 4096 else LOG_CAP
