"""Supervises one experiment in tmux: order, probes and ends, as symphony.supervision decides them.

    python -P -m symphony_tmux.supervisor SERVER SESSION OWNER

It runs in a window `symphony` of the session, beside the first one of that name, which shows help, if the
experiment declares any of these. Its state is in files, so it may be killed at any time.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from symphony import files, paths
from symphony.errors import SymphonyError
from symphony.supervision import Declaration, Fact, Hold, Supervisor
from symphony_tmux import experiment_folder, logs, names
from symphony_tmux.listeners import Sockets
from symphony_tmux.processes import hold as holds
from symphony_tmux.processes import observe, process_table, record, start
from symphony_tmux.processes.declared_code import CHANGED
from symphony_tmux.resource import supervised
from symphony_tmux.tmux import client
from symphony_tmux.tmux.client import Listing, Pane

# Seconds between two steps, and after a step that started a process, since others may wait for it. SHARE: the
# maximal CPU use of the steps, which are long for a thousand processes.
PERIOD, SHORT_PERIOD, SHARE = 1.0, 0.2, 0.02


def main() -> None:
    """Supervise the experiment until this process is ended."""
    tmux = Tmux(*sys.argv[1:])
    supervisor: Supervisor | None = None
    while True:
        cpu_before, has_started = time.process_time(), False
        try:
            if supervisor is None or tmux.has_changed():
                declared = tmux.declaration()
                supervisor = Supervisor(tmux, declared) if declared is not None else None
            has_started = supervisor is not None and supervisor.step()
        except (OSError, SymphonyError) as error:
            sys.stderr.write(f"{error}; the supervisor tries again\n")
        time.sleep(SHORT_PERIOD if has_started else max(PERIOD, (time.process_time() - cpu_before) / SHARE))


class Tmux(logs.Outputs):
    """The processes of one experiment in a tmux session, for its supervisor."""

    def __init__(self, server: str, session: str, owner: str) -> None:
        super().__init__(lambda path: self._process_folder(path) / "log")
        self._server, self._session, self._owner = server, session, owner
        self._folder = paths.experiment_folder(server, session)
        self._declared = Declaration(name=session, members={})
        self._version: object = None
        self._panes: dict[str, Pane] = {}
        self._sockets: Sockets | None = None
        # path -> pane and fact of a process that has ended, so that the fact does not change.
        self._ended: dict[str, tuple[Pane, Fact]] = {}

    def has_changed(self) -> bool:
        """Return whether an `up` has written another declaration."""
        return self._current_version() != self._version

    def declaration(self) -> Declaration | None:
        self._version = self._current_version()
        declared = supervised.read_declaration(self._folder)
        self._declared = declared or self._declared
        return declared

    def _current_version(self) -> object:
        with suppress(OSError):
            facts = (self._folder / supervised.DECLARED).stat()
            return facts.st_ino, facts.st_mtime_ns
        return None

    # what is there

    def now(self) -> float:
        return process_table.now()

    def boot(self) -> str:
        return process_table.boot_id()

    def facts(self) -> Mapping[str, Fact]:
        listing = client.list_panes(self._server)
        if not listing.server_pid:
            # The server has ended, and this process is about to.
            return {}
        self._sockets = None
        self._panes = {pane.path: pane for pane in listing.panes if pane.owner == self._owner}
        members = self._declared.members
        facts = ((path, self._fact(path, self._panes.get(path), listing)) for path in members)
        return {path: fact for path, fact in facts if fact is not None}

    def _fact(self, path: str, pane: Pane | None, listing: Listing) -> Fact | None:
        if pane is None or pane.dead:
            return self._ended_fact(path, pane, listing)
        program, started_at = observe.program_start(pane.pid, pane.attempt)
        if (hold := holds.read_if_held({"log": self._process_folder(path) / "log"})) is not None:
            # An `up` may have changed the order since.
            hold = replace(hold, waits_for=self._declared.members[path].waits_for)
            return Fact("ending" if program else "held", program, started_at, hold=hold)
        return Fact("running", program, started_at or self.now())

    def _ended_fact(self, path: str, pane: Pane | None, listing: Listing) -> Fact | None:
        if pane is not None and path in self._ended and self._ended[path][0] == pane:
            return self._ended[path][1]
        last_start = record.read(self._server, self._session, path)
        if last_start is None or last_start["owner"] != self._owner:
            return None
        start = f"{last_start['attempt']}."
        condition = observe.condition(last_start, listing)
        if condition.state not in ("completed", "failed"):
            return Fact("lost", start, why=condition.reason)
        code = None
        if condition.pane is not None:
            code = 128 + condition.pane.signal if condition.pane.signal else condition.pane.exit_code
        fact = Fact(condition.state, start, why=condition.reason, exit=code)
        if pane is not None:
            self._ended[path] = (pane, fact)
        return fact

    def missing_ports(self, path: str, ports: Iterable[int]) -> list[int]:
        sockets = self._sockets = self._sockets or Sockets()
        pane = self._panes.get(path)
        return list(ports) if pane is None else sockets.missing(pane.pid, ports)

    def activity(self) -> Mapping[str, tuple[float, int]]:
        cpu_seconds = {stat.pid: stat.seconds for stat in process_table.stats()}
        return {
            path: (sum(cpu_seconds.get(pid, 0) for pid in process_table.tree(pane.pid)), self._output(path))
            for path, pane in self._panes.items()
            if not pane.dead and path in self._declared.members
        }

    def _output(self, path: str) -> int:
        with suppress(OSError):
            return (self._process_folder(path) / "log").stat().st_size
        return 0

    # what is done

    def hold(self, path: str, hold: Hold) -> None:
        holds.write(self._process_folder(path), hold)
        self._wake(path)

    def release(self, path: str) -> str:
        folder = self._process_folder(path)
        hold = holds.read(folder)
        if hold is not None and hold.code is not None and hold.code.has_changed():
            return CHANGED
        (folder / holds.NAME).unlink(missing_ok=True)
        self._wake(path)
        return ""

    def restart(self, path: str) -> None:
        files.replace(self._process_folder(path) / start.RESTART, b"")
        self._wake(path)

    def run(self, path: str, argv: tuple[str, ...], timeout: float) -> str:
        pane = self._panes.get(path)
        children = process_table.children(pane.pid) if pane is not None else []
        if not children:
            return "the process does not run"
        # The environment and the working directory of the process.
        proc_folder = Path(f"/proc/{children[0]}")
        environ = os.fsdecode((proc_folder / "environ").read_bytes()).split("\0")
        pairs = (entry.partition("=") for entry in environ if "=" in entry)
        try:
            process = subprocess.Popen(
                argv,
                env={name: text for name, _, text in pairs},
                cwd=(proc_folder / "cwd").readlink(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"{argv[0]}: {error.strerror}"
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"{argv[0]} did not end within {timeout:g} s"
        return "" if code == 0 else f"{argv[0]}: exit {code}"

    def tell(self, path: str, line: str) -> None:
        pane = self._panes.get(path)
        if pane is None:
            return
        # Written to the window, so that the line is at the right place in the log.
        with suppress(OSError):
            terminal = os.open(f"/proc/{pane.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                if stat.S_ISCHR(os.fstat(terminal).st_mode):
                    os.write(terminal, f"\r\n[symphony: {line}]\r\n".encode())
            finally:
                os.close(terminal)

    def _wake(self, path: str) -> None:
        """Wake the supervisor of the process, which otherwise looks every two seconds."""
        pane = self._panes.get(path)
        if pane is not None and not pane.dead:
            with suppress(ProcessLookupError):
                # Ignored by default.
                os.kill(pane.pid, signal.SIGCHLD)

    def load(self) -> bytes:
        return experiment_folder.content(self._folder / supervised.STATE)

    def save(self, state: bytes) -> None:
        files.replace(self._folder / supervised.STATE, state)

    def _process_folder(self, path: str) -> Path:
        return names.process_folder(self._server, self._session, path)


if __name__ == "__main__":
    main()
