"""Sends commands to tmux servers, with deadlines and errors of a single line.

Not libtmux: its calls have no deadlines, and titles that a process sets break some of them.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec
import psutil
from msgspec.structs import replace

from symphony import files, paths
from symphony.errors import SymphonyError
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Identity
from symphony_tmux.tmux import program

DEADLINE = 8.0
CHECK_TMUX = "Run `tmux -V`; if that fails, reinstall tmux"
TRIES = 40
# Only fields that tmux or symphony sets: the titles and names that users set may contain anything.
FIELDS: tuple[str, ...] = (
    "session_id",
    "window_id",
    "pane_id",
    "window_index",
    "pane_pid",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "pane_dead_time",
    "pid",
    "@symphony_session",
    "@symphony_owner",
    "@symphony_process",
)
FORMAT = "|".join(f"#{{{field}}}" for field in FIELDS)
# tmux's messages when no server runs. The last two: the server has no sessions and is about to end.
NOT_THERE = re.compile(
    r"no server running|error connecting to .*(No such file|refused)|lost server|server exited|no sessions"
    r"|no current target"
)
# The server keeps its environment, so it gets only the variables that a user's shell in it needs.
CLEAN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL")
CLEAN_START = Path(__file__).with_name("clean_start.py")


class TmuxError(SymphonyError):
    """tmux refused, is missing, or does not answer."""


class UnresponsiveError(TmuxError):
    """The server does not answer in time."""


class NoServer(TmuxError):
    """No tmux server listens on the socket."""


# socket -> time and error of the last listing without an answer: within DEADLINE the next one fails at once.
_unanswered: dict[Path, tuple[float, UnresponsiveError]] = {}


class Pane(msgspec.Struct, frozen=True):
    """A pane in tmux; owner and the following fields are empty if symphony did not start it."""

    session_id: str
    window_id: str
    pane_id: str
    index: int
    pid: int
    dead: bool
    exit_code: int | None
    signal: int | None
    ended: int
    owner: str = ""
    path: str = ""
    attempt: int = 0
    launched: float = 0
    digest: str = ""


class Session(msgspec.Struct, frozen=True):
    """A session of symphony."""

    session_id: str
    name: str
    owner: str


class Listing(msgspec.Struct, frozen=True, dict=True):
    """The panes and sessions of a server; server_pid is 0 if no server runs."""

    server_pid: int = 0
    panes: tuple[Pane, ...] = ()
    sessions: tuple[Session, ...] = ()

    @cached_property
    def by_pane(self) -> dict[str, Pane]:
        """The panes by their ids."""
        return {pane.pane_id: pane for pane in self.panes}

    def session(self, name: str) -> Session | None:
        return next((session for session in self.sessions if session.name == name), None)


def run(server: str, arguments: Sequence[str], *, starts: bool = False, busy: float = 0) -> str:
    """Run tmux with commands, separated by ";" items, and return its output.

    starts: the commands start a server if there is none, through CLEAN_START; busy: seconds that the
    server may be busy before it answers.
    """
    deadline = DEADLINE + busy
    command_line = command(server, arguments)
    _resume(server)
    if starts:
        command_line = [sys.executable, "-I", "-S", str(CLEAN_START), *command_line]
    try:
        # A session of its own, so that signals to the engine do not interrupt the client.
        completed = subprocess.run(
            command_line,
            cwd=paths.home(),
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unresponsive(server, deadline) from None
    except OSError as error:
        # The missing file may also be the working directory.
        if isinstance(error, FileNotFoundError) and error.filename == "tmux":
            raise TmuxError(program.MISSING, remedy=f"To install tmux, {program.install_step()}") from None
        raise TmuxError(f"tmux cannot be run: {error}", remedy=CHECK_TMUX) from None
    if completed.returncode:
        raise _failure(server, completed.stderr or completed.stdout)
    return completed.stdout.decode(errors="replace")


def _unresponsive(server: str, deadline: float) -> UnresponsiveError:
    what = f"the tmux server {server!r} does not answer within {deadline:.0f} s"
    socket = paths.tmux_socket(server)
    remedy = f"It may have run out of file descriptors: try `tmux -S {socket} attach`, or end the server"
    return UnresponsiveError(what, where=str(socket), remedy=remedy)


def _resume(server: str) -> None:
    """Resume a server that a signal has stopped; without it no experiment could be read or deleted."""
    process = _process(server)
    if process is not None and process.stopped:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _process(server: str) -> process_table.Process | None:
    """Return the process of a server; None if it has ended since it was recorded."""
    recorded = recorded_server(server)
    process = process_table.process(recorded.pid) if recorded is not None else None
    return process if process is not None and process.identity == recorded else None


def join(commands: Iterable[Sequence[str]]) -> list[str]:
    """Return the arguments of one call of tmux that runs all the commands."""
    return [word for command in commands for word in (*command, ";")][:-1]


def command(server: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a tmux client."""
    socket = paths.tmux_socket(server)
    _refuse_foreign(socket.parent)
    return ["tmux", "-u", "-S", str(socket), "-f", "/dev/null", *arguments]


def _refuse_foreign(folder: Path) -> None:
    """Raise TmuxError if the socket folder belongs to another user, whose server could control our client."""
    if folder.parent == paths.home() or not folder.exists():
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise TmuxError(
            f"the folder of tmux's sockets {folder} is not a folder to which this user alone can write",
            remedy="Remove it, or set SYMPHONY_HOME to a shorter path, in which the sockets fit",
        )


def list_panes(server: str) -> Listing:
    """Return the panes and sessions of the server; an empty listing if no server runs."""
    socket = paths.tmux_socket(server)
    if not socket.exists():
        return Listing()
    if socket in _unanswered and time.monotonic() - _unanswered[socket][0] < DEADLINE:
        raise _unanswered[socket][1]
    result = Listing()
    for _ in range(TRIES):
        try:
            result = parse(run(server, ["list-panes", "-a", "-F", FORMAT]))
        except NoServer:
            return Listing()
        except UnresponsiveError as error:
            _unanswered[socket] = time.monotonic(), error
            raise
        if not any(map(_is_ending, result.panes)):
            break
        # tmux 3.3a sometimes misses the end of a child until the next SIGCHLD.
        with suppress(ProcessLookupError):
            os.kill(result.server_pid, signal.SIGCHLD)
        time.sleep(0.02)
    return result


def expect_answer(server: str) -> None:
    """Make the next listing wait for a server that did not answer before."""
    _unanswered.pop(paths.tmux_socket(server), None)


def _is_ending(pane: Pane) -> bool:
    """Return whether tmux knows that the pane has ended, but not how."""
    is_unknown = pane.path and pane.dead and pane.exit_code is None and not pane.signal
    return bool(is_unknown) and psutil.pid_exists(pane.pid)


def parse(text: str) -> Listing:
    """Parse the output of list-panes, ignoring other lines."""
    lines = (line.split("|") for line in text.split("\n"))
    rows = [dict(zip(FIELDS, values, strict=True)) for values in lines if len(values) == len(FIELDS)]
    sessions = {
        row["session_id"]: Session(row["session_id"], row["@symphony_session"], row["@symphony_owner"])
        for row in rows
        if row["@symphony_session"]
    }
    server_pid = _int(rows[0]["pid"]) if rows else 0
    return Listing(server_pid, tuple(map(_pane, rows)), tuple(sessions.values()))


def clean_environment() -> dict[str, str]:
    result = {name: os.environ[name] for name in CLEAN if name in os.environ}
    return {"PATH": os.defpath, "HOME": str(Path("/")), **result}


def _failure(server: str, stderr: bytes) -> TmuxError:
    text = " ".join(stderr.decode(errors="replace").split())
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)[:300]
    kind = NoServer if NOT_THERE.search(clean) else TmuxError
    remedy = "Run the same command again to continue"
    if "protocol version mismatch" in clean:
        process = _process(server)
        end = f"end that with `kill {process.pid}`" if process is not None else "end that"
        remedy = f"tmux was updated under its server: {end}, then `symphony up` starts it again"
    return kind(
        f"tmux refused a command: {clean or 'no reason given'}",
        where=str(paths.tmux_socket(server)),
        remedy=remedy,
    )


def _pane(row: dict[str, str]) -> Pane:
    dead = row["pane_dead"] == "1"
    pane = Pane(
        session_id=row["session_id"],
        window_id=row["window_id"],
        pane_id=row["pane_id"],
        index=_int(row["window_index"]),
        pid=_int(row["pane_pid"]),
        dead=dead,
        exit_code=_int(row["pane_dead_status"]) if dead and row["pane_dead_status"] else None,
        signal=_int(row["pane_dead_signal"]) or None if dead else None,
        ended=_int(row["pane_dead_time"]),
    )
    option_fields = row["@symphony_process"].split(" ")
    if len(option_fields) != 5:
        return pane
    owner, path, attempt, launched, digest = option_fields
    return replace(
        pane, owner=owner, path=path, attempt=_int(attempt), launched=_float(launched), digest=digest
    )


def process_option(owner: str, path: str, attempt: int, launched: float, digest: str) -> str:
    """Return the value of the pane option that identifies a process of symphony."""
    return f"{owner} {path} {attempt} {launched:.3f} {digest}"


def _int(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0


def record_server(server: str, pid: int) -> None:
    """Record the process of a server in `tmux/SERVER.pid` of symphony's home, which supervise.pl reads, too.

    A server that was started in a process of an experiment has experiments of its own, and must not end with
    that process.
    """
    folder = paths.home() / "tmux"
    content = f"{pid} {process_table.start_of(pid)}\n".encode()
    file = folder / f"{server}.pid"
    if _read(file) != content:
        files.replace(file, content)


def recorded_server(server: str) -> Identity | None:
    """Return the recorded process of a server, which may have ended."""
    fields = _read(paths.home() / "tmux" / f"{server}.pid").split()
    is_valid = len(fields) == 2 and all(map(bytes.isdigit, fields))
    return Identity(int(fields[0]), int(fields[1])) if is_valid else None


def recorded_servers() -> set[Identity]:
    """Return the recorded processes of all servers, which may have ended."""
    servers = (recorded_server(file.stem) for file in files.matching(paths.home() / "tmux", "*.pid"))
    return {identity for identity in servers if identity is not None}


def _read(file: Path) -> bytes:
    """Return the content of a file; empty if it cannot be read."""
    try:
        return files.read(file, limit=100)
    except OSError:
        return b""
