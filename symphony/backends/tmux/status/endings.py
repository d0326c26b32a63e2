"""The ends of processes in tmux, with the last words of their logs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from symphony.backends.observe import ProcessStatus
from symphony.backends.tmux.status import logs as log_lines
from symphony_tmux.logs import reader as files
from symphony_tmux.processes import observe
from symphony_tmux.tmux.client import Pane

_LONGEST = 120
# The note of failed_lines on a line that ended the process.
_PREAMBLE = re.compile(r"\[symphony: (preamble_cmds .*) \(\|\| true .*\)\]")


def ended(status: ProcessStatus, pane: Pane | None, facts: Mapping[str, Any]) -> ProcessStatus:
    """Return the status with how the process ended, and its last lines if it failed."""
    if pane is None:
        # It completed before its window went.
        attempts = files.attempts(str(facts["log"]))
        end = attempts[-1][2] if attempts else None
        return replace(status, why="", since=end.time if end is not None else None)
    pane = _known(pane, str(facts["log"]))
    if pane.exit_code == 0:
        status = replace(status, state="completed")
    words = log_lines.last_lines(str(facts["log"]), 5) if status.state == "failed" else ()
    return replace(status, why=_how(pane, words, facts), words=words[-3:])


def _known(pane: Pane, log: str) -> Pane:
    """Return the pane with how it ended, from its log where tmux 3.3a does not know."""
    if pane.exit_code is not None or pane.signal:
        return pane
    for _, _, end in files.attempts(log)[-1:]:
        if end is not None:
            return replace(pane, **{"signal" if end.event == "signal" else "exit_code": end.number})
    return pane


def starting_again(status: ProcessStatus, log: str) -> ProcessStatus:
    """Return the status of a process that its supervisor restarts: between two starts it is waiting."""
    status = replace(status, restarts=files.restarts(log))
    attempts = files.attempts(log)
    if status.state != "running" or not attempts:
        return status
    _, began, end = attempts[-1]
    if end is None:
        before = attempts[-2][2] if len(attempts) > 1 else None
        # Of a begin that went with a rotation only the launch is known.
        return replace(status, since=began or status.since, last=log_lines.how(before) if before else "")
    words = log_lines.last_lines(log, 5)
    why = ": ".join(
        [f"starts again after {log_lines.how(end)}", *(line.strip()[:_LONGEST] for line in words[-1:])]
    )
    return replace(status, state="waiting", ready=False, why=why, since=end.time, pid=None, words=words[-3:])


def _how(pane: Pane, words: Sequence[str], facts: Mapping[str, Any]) -> str:
    """Return how a process ended and its last line, for a column; nothing for exit 0."""
    if pane.exit_code == 0:
        return ""
    code = "exit code unknown" if pane.exit_code is None else f"exit {pane.exit_code}"
    how = f"killed by {observe.signal_name(pane.signal)}" if pane.signal else code
    if observe.supervisor_was_killed(pane, facts):
        return f"{how}: its supervisor was killed"
    again = log_lines.after_restarts(facts)
    if killed := log_lines.killed_program(pane.exit_code, words):
        return f"{killed[:_LONGEST]}{again}"
    how += again
    line = words[-1].strip() if words else ""
    if failed := _PREAMBLE.match(line):
        return f"{failed[1][:_LONGEST]}{again}"
    return f"{how}: {line[:_LONGEST]}" if line else how
