"""Reads the condition of a started process from the outputs of its Window and a listing of panes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from symphony import files
from symphony_tmux import names
from symphony_tmux.processes import process_table
from symphony_tmux.tmux.client import Listing, Pane

if TYPE_CHECKING:
    from symphony_tmux.logs import IndexEntry

SHELLS = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})
State = Literal["running", "completed", "failed", "lost", "elsewhere", "stopped"]


class Condition(msgspec.Struct, frozen=True):
    """The state of a process, the reason (empty while it runs), and its pane, if it still exists.

    resumes: it was stopped because the primaries ended, and will start again with them.
    """

    state: State
    reason: str = ""
    pane: Pane | None = None
    resumes: bool = False

    @property
    def is_good(self) -> bool:
        """Return whether the process runs, has completed, or will start again with the primaries."""
        return self.state in ("running", "completed") or self.resumes

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


def condition(outputs: Mapping[str, Any], listing: Listing) -> Condition:
    """Return the current condition of the process that these outputs of a Window describe."""
    if outputs["host"] != process_table.host():
        return Condition("elsewhere", f"it was started on host {outputs['host']}")
    if outputs["boot_id"] != process_table.boot_id():
        return _without_window("the host was rebooted", outputs)
    if not listing.server_pid:
        return _without_window("the tmux server is gone", outputs)
    pane = listing.by_pane.get(outputs["pane_id"])
    if pane is None or (pane.owner, pane.path) != (outputs["owner"], outputs["path"]):
        return _without_window("its window is gone", outputs)
    if pane.pid != int(outputs["pid"]) or not _same_start(pane, int(outputs["start_time"])):
        return Condition("lost", "another process runs in its window", pane)
    if pane.dead:
        return _ended(pane, outputs)
    return _stopped(pane, outputs) or Condition("running", pane=pane)


def _stopped(pane: Pane, outputs: Mapping[str, Any]) -> Condition | None:
    """Return the condition of a process that the end of its experiment stopped."""
    if not names.is_held(str(outputs["log"])):
        return None
    # Imported here: a running process has no hold, the file that keeps processes stopped.
    from symphony_tmux.processes import hold

    hold_ = hold.read(Path(str(outputs["log"])).parent)
    if hold_ is None or not hold_.stopped:
        return None
    # "completed" and "failed": the processes in primary= ended; "stopped": stop_after or idle_after was over.
    return Condition("stopped", hold_.why, pane, resumes=hold_.stopped != "stopped")


def waits_for(outputs: Mapping[str, Any]) -> str:
    """Return the port or GPUs that a process waits for, as its file `waiting` says; empty if none."""
    file = f"{str(outputs['log']).removesuffix('log')}waiting"
    try:
        text = files.read(file, limit=200).decode(errors="replace")
    except OSError:
        return ""
    return "".join(letter for letter in text.strip() if letter.isprintable())


def log_trouble(log: str) -> str:
    """Return why a process has no log; empty if it has one."""
    try:
        files.open_regular(log).close()
    except FileNotFoundError:
        folder = Path(log).parent
        return f"{'its log' if folder.is_dir() else folder} was removed: no log is kept"
    except OSError as error:
        return f"its log cannot be read: {error.strerror}"
    return ""


def program(outputs: Mapping[str, Any]) -> int:
    """Return the pid of the user's program, behind its supervisor and shells; 0 between its starts."""
    pid = int(outputs["pid"])
    children = process_table.children(pid)
    # The supervisor is a perl script; without perl, the pid is that of the program.
    if not children and process_table.command_name(pid) == "perl":
        return 0
    while children and (len(children) == 1 or pid == int(outputs["pid"])):
        pid = children[0]
        children = process_table.children(pid) if process_table.command_name(pid) in SHELLS else []
    return pid


def program_start(pid: int, attempt: int) -> tuple[str, float]:
    """Return the identifier of the current start of a program, and its time; ("", 0) between starts."""
    children = process_table.children(pid)
    start = process_table.start_of(children[0]) if children else 0
    return (f"{attempt}.{children[0]}.{start}", process_table.seconds(start)) if start else ("", 0)


def session_reason(outputs: Mapping[str, Any], listing: Listing) -> str:
    """Return why the session of these inputs or outputs must be created again; empty if it exists."""
    session = listing.session(outputs["name"])
    if session is not None and session.owner == outputs["owner"]:
        return ""
    if outputs.get("boot_id", process_table.boot_id()) != process_table.boot_id():
        return "the host was rebooted"
    return "its session is gone" if listing.server_pid else "the tmux server is gone"


def supervisor_was_killed(pane: Pane, outputs: Mapping[str, Any]) -> bool:
    """Return whether the supervisor was killed, and did not end with its process as the log records."""
    if pane.signal != signal.SIGKILL:
        return False
    started, end = _last_attempt(outputs)
    return started and (end is None or (end.event, end.number) != ("signal", signal.SIGKILL))


def _without_window(reason: str, outputs: Mapping[str, Any]) -> Condition:
    """Return completed if the log says so, else lost for this reason."""
    _, end = _last_attempt(outputs)
    completed = end is not None and (end.event, end.number) == ("exit", 0)
    if completed and outputs.get("restart_policy") != "Always":
        return Condition("completed", "it exited with code 0")
    return Condition("lost", reason)


def _last_attempt(outputs: Mapping[str, Any]) -> tuple[bool, IndexEntry | None]:
    """Return whether the log has the current attempt, and the entry of its end."""
    # Imported here: running processes do not need it.
    from symphony_tmux import logs as reader

    for number, _, end in reader.attempts(str(outputs["log"]))[-1:]:
        return number == int(outputs["attempt"]), end if number == int(outputs["attempt"]) else None
    return False, None


def _with_recorded_end(pane: Pane, outputs: Mapping[str, Any]) -> Pane:
    """Return a pane with the end that the log records, if the listing came before tmux knew how it ended."""
    if pane.exit_code is not None or pane.signal:
        return pane
    _, end = _last_attempt(outputs)
    if end is None:
        return pane
    return replace(pane, **{"exit_code" if end.event == "exit" else "signal": end.number})


def _ended(pane: Pane, outputs: Mapping[str, Any]) -> Condition:
    pane = _with_recorded_end(pane, outputs)
    if supervisor_was_killed(pane, outputs):
        return Condition("failed", "its supervisor was killed by signal 9 (SIGKILL)", pane)
    if pane.signal:
        return Condition(
            "failed", f"it was killed by signal {pane.signal} ({signal_name(pane.signal)})", pane
        )
    if pane.exit_code is None:
        return Condition("failed", "it ended with an unknown exit code", pane)
    if pane.exit_code:
        return Condition("failed", f"it exited with code {pane.exit_code}", pane)
    return Condition("completed", "it exited with code 0", pane)


def _same_start(pane: Pane, start: int) -> bool:
    """Return whether the pane's process began at `start`; tmux reaps it before a pid is reused."""
    result = process_table.start_of(pane.pid) if start and not pane.dead else 0
    return result in (0, start)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
