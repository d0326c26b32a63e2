"""What became of a started process, told from its outputs and a listing."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from symphony_tmux.processes import process_table
from symphony_tmux.tmux.client import Listing, Pane

SHELLS = frozenset({"bash", "dash", "fish", "ksh", "sh", "zsh"})
State = Literal["running", "completed", "failed", "lost", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Condition:
    """state; reason in words, empty while running; the pane, when it is still there."""

    state: State
    reason: str = ""
    pane: Pane | None = None

    @property
    def is_good(self) -> bool:
        """Running, or ended as it should."""
        return self.state in ("running", "completed")

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


def condition(outputs: Mapping[str, Any], listing: Listing) -> Condition:
    """The condition now of the process that these outputs of a Window describe."""
    if outputs["host"] != process_table.host():
        return Condition("elsewhere", f"it was started on host {outputs['host']}")
    if outputs["boot_id"] != process_table.boot_id():
        return Condition("lost", "the host was rebooted")
    if not listing.server_pid:
        return Condition("lost", "the tmux server is gone")
    pane = next((each for each in listing.panes if each.pane_id == outputs["pane_id"]), None)
    if pane is None or (pane.owner, pane.path) != (outputs["owner"], outputs["path"]):
        return Condition("lost", "its window is gone")
    if pane.pid != int(outputs["pid"]) or not _same_start(pane, int(outputs["start_time"])):
        return Condition("lost", "another process runs in its window", pane)
    return _ended(pane) if pane.dead else Condition("running", pane=pane)


def program(outputs: Mapping[str, Any]) -> int:
    """Return the pid of the user's program, for debuggers and profilers, behind its supervisor and shells."""
    pid = int(outputs["pid"])
    below = process_table.children(pid)
    while below and (len(below) == 1 or pid == int(outputs["pid"])):
        pid = below[0]
        below = process_table.children(pid) if process_table.command_name(pid) in SHELLS else []
    return pid


def session_reason(outputs: Mapping[str, Any], listing: Listing) -> str:
    """Why the session of these inputs or outputs must be made again; empty when it is there."""
    session = listing.session(outputs["name"])
    if session is not None and session.owner == outputs["owner"]:
        return ""
    if outputs.get("boot_id", process_table.boot_id()) != process_table.boot_id():
        return "the host was rebooted"
    return "its session is gone" if listing.server_pid else "the tmux server is gone"


def _ended(pane: Pane) -> Condition:
    if pane.signal:
        return Condition(
            "failed", f"it was killed by signal {pane.signal} ({signal_name(pane.signal)})", pane
        )
    if pane.exit_code is None:
        return Condition("failed", "it ended, its exit code is not known", pane)
    if pane.exit_code:
        return Condition("failed", f"it exited with code {pane.exit_code}", pane)
    return Condition("completed", "it exited with code 0", pane)


def _same_start(pane: Pane, start: int) -> bool:
    """tmux reaps its children itself: while it says a pane lives, its pid is not used again."""
    result = process_table.start_of(pane.pid) if start and not pane.dead else 0
    return result in (0, start)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
