"""Explains the state of a process in tmux: its steps, and how it ended."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from symphony.backends import following, process_logs
from symphony.backends.observe import Link, ProcessStatus
from symphony.backends.tmux.look import Look
from symphony.errors import SymphonyError
from symphony.paths import host
from symphony_tmux import logs, variables
from symphony_tmux.processes import hold, observe
from symphony_tmux.processes.declared_code import CHANGED
from symphony_tmux.processes.observe import Condition
from symphony_tmux.tmux.client import Pane

_WIDEST = 120
# The note in the log about a line of preamble_cmds that ended the process.
_PREAMBLE = re.compile(r"\[symphony: (preamble_cmds .*) \((?:append )?\|\| true .*\)\]")
_LINES = 5
_SHELL_EXIT_CODES = {126: "the command exists but is not executable", 127: "the command was not found"}


def chain(process: Mapping[str, Any], look: Look, name: str) -> Iterator[Link]:
    """Yield the steps of a process that was started; name: the experiment's, for the remedies."""
    listing = look.listing(str(process["server"]))
    yield following.planned_link(process)
    restart = f"`symphony up {name}` restarts it"
    launched = float(process["launched"]) if process.get("launched") else None
    window = f"window {process['path']} of session {process['session']}"
    if process["host"] != host():
        elsewhere = f"on host {process['host']}; this host is {host()}"
        yield Link("started", elsewhere, launched, True, remedy=f"Run this command on {process['host']}")
        return
    attempt = int(process.get("attempt") or 1)
    yield Link("started", window + (f", start {attempt}" if attempt > 1 else ""), launched)
    if isinstance(listing, SymphonyError):
        yield Link("reached", f"no: {listing.what}", broken=True, remedy=listing.remedy)
        return
    condition = observe.condition(process, listing)
    yield from following.failed_cmds(Path(str(process["log"])).parent)
    ends = logs.attempts(str(process["log"])) if process.get("restart_policy") else []
    began = (ends[-1][1] if ends else 0) or launched
    held = hold.read_if_held(process) if condition.state in ("running", "stopped") else None
    if condition.state == "stopped" and not (held is not None and held.blocked):
        yield Link(
            "stopped",
            condition.reason,
            broken=True,
            more=_last(process),
            remedy="" if condition.resumes else restart,
        )
    elif held is not None:
        remedy = ""
        if held.blocked:
            has_changed = held.why == CHANGED
            # The text begins with the dependency that failed first.
            failed = [wait.path for wait in held.waits_for if held.why.startswith(f"{wait.path} ")]
            remedy = restart if has_changed or not failed else f"See `symphony why {name} {failed[0]}`"
        since = hold.shown_since(held) or launched
        yield Link(held.state, held.why, since, True, remedy=remedy)
    elif condition.state == "running" and (holder := observe.waits_for(process)):
        remedy = "The process starts when that is free: wait, or stop the program that uses it"
        yield Link("ready", f"no: waiting for {holder}", launched, True, _last(process), remedy)
    elif condition.state == "running" and ends and (entry := ends[-1][2]) is not None:
        how = f"{process_logs.end_reason(entry)}; it restarts automatically ({process['restart_policy']})"
        yield Link("exit", how, entry.time, True, _last(process))
    elif (
        condition.pane is not None
        and condition.state == "running"
        and (why := look.why_not_ready(process, condition.pane))
    ):
        yield Link("ready", f"no: {why}", began, True, _last(process))
    elif condition.state == "running":
        pid = observe.program(process)
        yield Link("ready", f"running, process {pid}" if pid else "running", began)
    elif condition.state == "completed" and condition.pane is None:
        yield Link("exit", "exit 0")
    elif condition.pane is None:
        yield Link("lost", _lost(condition, process), broken=True, more=_last(process), remedy=restart)
    else:
        yield _end_link(condition, condition.pane, process, name)


def _lost(condition: Condition, process: Mapping[str, Any]) -> str:
    """Return why a process counts as lost, and how it ended if its log records it."""
    entry = process_logs.last_end(process)
    ended = f"; the process had ended: {process_logs.end_reason(entry)}" if entry is not None else ""
    closed = ": it was closed" if condition.reason == "its window is gone" else ""
    return f"{condition.reason}{closed}{ended}"


def _end_link(condition: Condition, pane: Pane, process: Mapping[str, Any], name: str) -> Link:
    # tmux reports whole seconds, so a short process would seem to end before its start.
    when = max(float(pane.ended), float(process.get("launched") or 0)) if pane.ended else None
    if condition.state == "completed":
        return Link("exit", "exit 0", when)
    how = f"exit {pane.exit_code}" if pane.exit_code is not None else condition.reason
    remedy = (
        f"`symphony logs {name} {process['path']}` shows its whole output; `symphony up {name}` restarts it"
    )
    if pane.signal:
        how = f"killed by signal {pane.signal} ({observe.signal_name(pane.signal)})"
        if observe.supervisor_was_killed(pane, process):
            policy = process.get("restart_policy")
            how = f"its supervisor was {how}, and the process with it"
            how += f"; without a supervisor the policy {policy} does not restart it" if policy else ""
        if pane.signal == 9:
            remedy = f"A user or program killed it, or the machine ran out of memory; {remedy}"
    elif pane.exit_code in _SHELL_EXIT_CODES:
        how += f": {_SHELL_EXIT_CODES[pane.exit_code]}"
    elif killed := process_logs.killed_program(pane.exit_code, _last(process)):
        how += f": {killed}"
    how += process_logs.after_restarts(process)
    if taken := _taken_ports(process):
        how += f"; {taken}"
        remedy = f"Stop that program, or choose another port; {remedy}"
    return Link("exit", how, when, True, _last(process), remedy)


def _taken_ports(process: Mapping[str, Any]) -> str:
    """Return which program has taken a port of the process since the plan was made."""
    ports = variables.bound_ports(process.get("services") or {})
    if not ports:
        return ""
    # Imported here: few processes that ended bind services.
    from symphony_tmux.listeners import Listeners

    listeners = Listeners(str(process["owner"]))
    users = ((port, listeners.stranger(port)) for port in sorted(ports))
    return ", ".join(f"port {port} is in use by {stranger}" for port, stranger in users if stranger)


def _last(process: Mapping[str, Any]) -> tuple[str, ...]:
    return process_logs.last_lines(str(process["log"]), _LINES)


def with_end_reason(status: ProcessStatus, pane: Pane | None, process: Mapping[str, Any]) -> ProcessStatus:
    """Return the status with the reason of the end, and the last lines if the process failed."""
    if pane is None:
        # The process completed before its window closed.
        end = process_logs.last_end(process)
        return replace(status, why="", since=end.time if end is not None else None, exit_code=0)
    words = process_logs.last_lines(str(process["log"]), 5) if status.state == "failed" else ()
    code = 128 + pane.signal if pane.signal else pane.exit_code
    return replace(status, why=_short(pane, words, process), words=words[-3:], exit_code=code)


def _short(pane: Pane, words: Sequence[str], process: Mapping[str, Any]) -> str:
    """Return how a process ended and its last line, for a table column; empty for exit 0."""
    if pane.exit_code == 0:
        return ""
    code = "exit code unknown" if pane.exit_code is None else f"exit {pane.exit_code}"
    how = f"killed by {observe.signal_name(pane.signal)}" if pane.signal else code
    if observe.supervisor_was_killed(pane, process):
        return f"{how}: its supervisor was killed"
    after_restarts = process_logs.after_restarts(process)
    if killed := process_logs.killed_program(pane.exit_code, words):
        return f"{killed[:_WIDEST]}{after_restarts}"
    line = words[-1].strip() if words else ""
    if failed := _PREAMBLE.match(line):
        return f"{failed[1][:_WIDEST]}{after_restarts}"
    return f"{how}{after_restarts}: {line[:_WIDEST]}" if line else f"{how}{after_restarts}"
