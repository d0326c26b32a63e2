"""Starts the processes of one experiment in their order.

    python -P -m symphony_tmux.supervisor SERVER SESSION OWNER

It runs in the window `symphony` of the session, where the experiment declares an order. It keeps nothing in
memory that matters: what is held back is in files (see hold.py), so it may be killed at any time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec
import psutil

from symphony.errors import SymphonyError
from symphony_tmux.processes import hold, observe, record
from symphony_tmux.processes.declared_code import CHANGED
from symphony_tmux.processes.hold import Hold, Wait
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import Listing

# Seconds between two steps, and after one that started a process; the share of a processor that they take at
# most: a step of a thousand processes is long.
PERIOD, SOON, SHARE = 1.0, 0.2, 0.02


@dataclass(frozen=True)
class Answer:
    """The state of a wait: whether it is over or has failed, and in words why it is not over."""

    met: bool = False
    failed: bool = False
    why: str = ""


def main() -> None:
    """Supervise the experiment until this process is ended."""
    supervisor = Supervisor(*sys.argv[1:])
    while True:
        began, started = time.process_time(), list[str]()
        try:
            started = supervisor.step(time.monotonic())
        except (OSError, SymphonyError) as error:
            sys.stderr.write(f"{error}; it tries again\n")
        # The next of a chain may follow at once.
        time.sleep(max(SOON if started else PERIOD, (time.process_time() - began) / SHARE))


class Supervisor:
    """The supervisor of one experiment."""

    def __init__(self, server: str, session: str, owner: str) -> None:
        self._server, self._session, self._owner = server, session, owner
        # Monotonic seconds: a clock that is set ends no wait.
        self._since: dict[str, float] = {}

    def step(self, now: float) -> list[str]:
        """Start what needs to wait no longer, and say why the others wait; return the paths started."""
        folders, holds = dict[str, Path](), dict[str, Hold]()
        for path, folder, each in hold.held(self._server, self._session):
            folders[path], holds[path] = folder, each
        self._since = {path: self._since.get(path, now) for path in holds}
        if not holds:
            return []
        listing = client.list_panes(self._server)
        started: list[str] = []
        # One that another waits for first: what holds a chain back is known to all of it in one step.
        order = TopologicalSorter(
            {path: {wait.path for wait in each.waits_for} for path, each in holds.items()}
        )
        for path in order.static_order():
            if path in holds and self._decide(path, folders[path], holds, listing, now - self._since[path]):
                started.append(path)
        return started

    def _decide(
        self, path: str, folder: Path, holds: dict[str, Hold], listing: Listing, waited: float
    ) -> bool:
        """Start the process if it needs to wait no longer; return whether it did."""
        answers = [
            (wait, _late(wait, self._answer(wait, holds, listing), waited)) for wait in holds[path].waits_for
        ]
        open_waits = [(wait, answer) for wait, answer in answers if not answer.met]
        code = holds[path].code
        has_changed = not open_waits and code is not None and code.has_changed()
        if not open_waits and not has_changed:
            self._release(path, folder, listing)
            return True
        failed = [answer.why for _, answer in open_waits if answer.failed] + [CHANGED] * has_changed
        words = [f"{wait}{f': {answer.why}' if answer.why else ''}" for wait, answer in open_waits]
        why = "; ".join(failed) if failed else f"for {', '.join(words)}"
        told = msgspec.structs.replace(holds[path], why=why, blocked=bool(failed))
        if told != holds[path]:
            hold.write(folder, told)
        holds[path] = told
        return False

    def _answer(self, wait: Wait, holds: Mapping[str, Hold], listing: Listing) -> Answer:
        if (other := holds.get(wait.path)) is not None:
            return Answer(failed=other.blocked, why=f"{wait.path} is blocked" if other.blocked else "")
        known = record.read(self._server, self._session, wait.path)
        if known is None or known["owner"] != self._owner:
            return Answer(why="not started yet")
        condition = observe.condition(known, listing)
        if condition.state == "running":
            missing = _not_listening(known, wait.ports) if wait.condition == "ready" else ()
            is_met = wait.condition in ("started", "ready") and not missing
            return Answer(is_met, why=", ".join(f"port {port}: not listening yet" for port in missing))
        # A server that has ended listens no more.
        is_good = condition.state == "completed" and not (wait.condition == "ready" and wait.ports)
        is_met = is_good or wait.condition == "ended"
        return Answer(is_met, not is_met, f"{wait.path} {condition.state}: {condition.reason}")

    def _release(self, path: str, folder: Path, listing: Listing) -> None:
        (folder / hold.NAME).unlink(missing_ok=True)
        # Its supervisor looks every two seconds by itself; a signal that is ignored by default wakes it.
        for pane in listing.panes:
            if (pane.owner, pane.path) == (self._owner, path) and not pane.dead:
                os.kill(pane.pid, signal.SIGCHLD)


def _late(wait: Wait, answer: Answer, waited: float) -> Answer:
    if answer.met or answer.failed or wait.timeout is None or waited < wait.timeout:
        return answer
    more = f": {answer.why}" if answer.why else ""
    return Answer(failed=True, why=f"{wait.path} is not {wait.condition} after {wait.timeout:.0f} s{more}")


def _not_listening(known: Mapping[str, Any], ports: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ports that no process of this tree listens on; the listener of a stranger does not count."""
    if not ports:
        return ()
    heard: set[int] = set()
    try:
        root = psutil.Process(int(known["pid"]))
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return ports
    for process in tree:
        try:
            sockets = process.net_connections("tcp")
        except psutil.Error:
            continue
        heard.update(each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN)
    return tuple(port for port in ports if port not in heard)


if __name__ == "__main__":
    main()
