"""Facts of this machine and its processes, from /proc or psutil; trees, ports and observe read them here."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process is meant: a pid alone is used again."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Process:
    """One living process as a scan saw it; marker is its SYMPHONY_ID, empty when it has or shows none."""

    pid: int
    start: int
    parent: int
    session: int
    stopped: bool
    marker: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)


def host() -> str:
    """The name under which state remembers this machine; SYMPHONY_HOST when the machine was renamed."""
    return os.environ.get("SYMPHONY_HOST") or socket.gethostname()


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Differs after every boot."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def scan() -> list[Process]:
    """Every living process of the machine, zombies left out; one pass."""
    if not HAS_PROC:
        return [found for pid in psutil.pids() if (found := _by_psutil(pid)) is not None]
    pids = [int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit()]
    return [found for pid in pids if (found := _by_proc(pid)) is not None]


def process(pid: int) -> Process | None:
    """The living process of that pid."""
    return _by_proc(pid) if HAS_PROC else _by_psutil(pid)


def start_of(pid: int) -> int:
    """The start time of a living process in the unit of this machine, 0 when there is none."""
    found = _stat(pid) if HAS_PROC else _by_psutil(pid)
    if found is None:
        return 0
    return found.start if isinstance(found, Process) else found[4]


def exists(pid: int) -> bool:
    """Somebody has the pid, be it a zombie."""
    return (PROC / str(pid)).exists() if HAS_PROC else psutil.pid_exists(pid)


def alive(identities: Iterable[Identity]) -> list[Identity]:
    return [one for one in identities if start_of(one.pid) == one.start]


def command_name(pid: int) -> str:
    """The short name of a process, printable."""
    try:
        name = (
            (PROC / str(pid) / "comm").read_text(errors="replace").strip()
            if HAS_PROC
            else psutil.Process(pid).name()
        )
    except (OSError, psutil.Error):
        return "a process"
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "a process"


def _by_proc(pid: int) -> Process | None:
    facts = _stat(pid)
    if facts is None:
        return None
    state, parent, session, _, start = facts
    return Process(pid, start, parent, session, state in "Tt", _marker(pid))


def _stat(pid: int) -> tuple[str, int, int, int, int] | None:
    """State, parent, session, terminal and start time; None for what is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read a thousand times
            text = file.read()
    except OSError:
        return None
    # The name stands in brackets and may hold brackets and spaces itself.
    fields = text[text.rfind(b")") + 2 :].split()
    state = fields[0].decode()
    return (
        None if state in "ZXx" else (state, int(fields[1]), int(fields[3]), int(fields[4]), int(fields[19]))
    )


def _marker(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - read a thousand times
            text = b"\0" + file.read()
    except OSError:
        return ""
    _, found, rest = text.partition(b"\0SYMPHONY_ID=")
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def _by_psutil(pid: int) -> Process | None:
    try:
        one = psutil.Process(pid)
        with one.oneshot():
            status, parent = one.status(), one.ppid()
            start = int(one.create_time() * 1000)
            session = os.getsid(pid)
    except (psutil.Error, OSError):
        return None
    if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return None
    try:
        marker = one.environ().get("SYMPHONY_ID", "")
    except (psutil.Error, OSError):
        marker = ""
    return Process(pid, start, parent, session, status == psutil.STATUS_STOPPED, marker)


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]
