"""Creates the tmux server and the session of an experiment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from symphony import files, paths
from symphony.errors import UserError
from symphony_tmux import experiment_folder, names
from symphony_tmux.processes.snapshot import Snapshot
from symphony_tmux.tmux import client, program
from symphony_tmux.tmux.client import Session

HISTORY_LINES = 10_000
# The number of commands in a call of tmux, which is limited to 16 KiB.
BATCH = 200
TRIES = 10
# The seconds in which tmux handles the end of a pane; 0.005 for tmux 3.3a on two busy cores.
SECONDS_PER_END = 0.02
# -q: older versions lack some options. remain-on-exit must be set before any window can end.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-gq", "remain-on-exit", "on"),
    ("-gq", "history-limit", str(HISTORY_LINES)),
    ("-gq", "allow-rename", "off"),
    ("-gq", "automatic-rename", "off"),
    ("-gq", "allow-passthrough", "off"),
    ("-sq", "set-clipboard", "off"),
    ("-gq", "set-titles", "off"),
    ("-gq", "base-index", "0"),
    ("-gq", "default-command", ""),
)
# tmux 3.3a may drop the last output of a pane; its reply to a cursor query shows that it has read all.
SHOW = 'stty -icanon -echo; cat "$0"; printf "\\033[6n"; exec dd bs=1 count=1 >/dev/null 2>&1'
HELP = """\
Experiment {name}, started by symphony for {owner}.

Each window after this one is a process: C-b n and C-b p go to the next and previous one, C-b w lists them,
C-b d leaves; the processes run on. This window runs nothing.
"""


def ensure_session(server: str, name: str, owner: str, snapshot: Snapshot) -> Session:
    """Return the session of this owner, created if it is missing.

    Raises:
        UserError: The session belongs to another owner.
    """
    with snapshot.lock:
        session = snapshot.listing(server).session(name)
        if session is None:
            with _locked(server):
                # Another run may have created it while this one waited for the lock.
                snapshot.forget(server)
                session = snapshot.listing(server).session(name)
                if session is None:
                    _make_session(server, name, owner)
                    snapshot.forget(server)
                    session = snapshot.listing(server).session(name)
    if session is None:
        raise client.TmuxError(f"the tmux session {name} was created, but ended at once", remedy="Try again")
    client.record_server(server, snapshot.listing(server).server_pid)
    if session.owner != owner:
        raise UserError(
            f"the tmux session {name} belongs to {paths.owner_label(session.owner, owner)}",
            remedy="Delete that experiment, or rename this stack",
        )
    _create_folder(server, name, owner)
    return session


def _create_folder(server: str, name: str, owner: str) -> Path:
    """Create the folder of the experiment with its owner file, and return it."""
    folder = files.fresh_folder(paths.experiment_folder(server, name))
    if experiment_folder.owner_of(folder) != owner:
        experiment_folder.write_owner(folder, owner)
    return folder


def order_windows(server: str, owner: str, paths: Sequence[str]) -> None:
    """Sort the windows of this owner's processes into this order."""
    panes = {pane.path: pane for pane in client.list_panes(server).panes if pane.owner == owner}
    present = [panes[path] for path in paths if path in panes]
    if [pane.index for pane in present] == sorted(pane.index for pane in present):
        return
    first_free = max(pane.index for pane in panes.values()) + 1
    # Move them behind all others, in order; -r then renumbers all windows.
    moves = [
        ["move-window", "-d", "-s", pane.window_id, "-t", f"{pane.session_id}:{first_free + position}"]
        for position, pane in enumerate(present)
    ]
    for start in range(0, len(moves), BATCH):
        client.run(server, client.join(moves[start : start + BATCH]))
    client.run(server, ["move-window", "-r", "-t", present[0].session_id])


def kill_session(server: str, session_id: str, panes: int = 0) -> None:
    """End a session with its windows; the server ends with its last session.

    panes: the number of panes that have just ended, which the server handles before it answers.
    """
    with _locked(server):
        try:
            client.run(server, ["kill-session", "-t", session_id], busy=panes * SECONDS_PER_END)
        except client.NoServer:
            return
        except client.TmuxError:
            if any(session.session_id == session_id for session in client.list_panes(server).sessions):
                raise


def _make_session(server: str, name: str, owner: str) -> None:
    program.supported_version()
    files.own_folder(paths.tmux_socket(server).parent)
    folder = _create_folder(server, name, owner)
    files.replace(folder / "help", HELP.format(name=name, owner=names.stack(owner)).encode())
    for attempt in range(TRIES):
        try:
            client.run(server, _commands(name, owner, folder), starts=True)
            return
        except client.NoServer:
            # The server was just ending with its last session.
            if attempt == TRIES - 1:
                raise
            time.sleep(0.1)


def _commands(name: str, owner: str, folder: Path) -> list[str]:
    help_command = ["/bin/sh", "-c", SHOW, str(folder.relative_to(paths.home()) / "help")]
    commands: list[Sequence[str]] = [
        ["start-server"],
        *(["set-option", *option] for option in OPTIONS),
        ["new-session", "-d", "-s", name, "-n", "symphony", "-x", "200", "-y", "50", *help_command],
        ["set-option", "-t", f"={name}:", "@symphony_session", name],
        ["set-option", "-t", f"={name}:", "@symphony_owner", owner],
        ["set-option", "-wq", "-t", f"={name}:0", "remain-on-exit-format", ""],
    ]
    return client.join(commands)


def _locked(server: str) -> AbstractContextManager[None]:
    return files.locked(
        paths.home() / "tmux" / f"{server}.lock", seconds=15, what=f"the tmux server {server}"
    )
