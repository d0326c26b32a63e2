"""Facts about this machine and its processes, from psutil.

A process is known by its pid and its start. On Linux the start is read here, in ticks since the boot: psutil
makes a time of day of it, which changes when the clock is set, and what is written down outlives that.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

from symphony.paths import host as host

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()


@dataclass(frozen=True, slots=True)
class Identity:
    """A pid with the start of its process, because pids are used again."""

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


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return a name of the current boot of this machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def scan() -> list[Process]:
    """Return every living process of the machine; zombies are dead."""
    return [found for pid in psutil.pids() if (found := process(pid)) is not None]


def process(pid: int) -> Process | None:
    """Return the living process of that pid."""
    facts = _facts(pid)
    if facts is None:
        return None
    state, parent, session, start = facts
    return Process(pid, start, parent, session, state in "Tt", _marker(pid))


def start_of(pid: int) -> int:
    """Return the start of a living process in the unit of this machine, 0 when there is none."""
    facts = _facts(pid)
    return facts[3] if facts else 0


def now() -> float:
    """Return the seconds by which starts are counted; on Linux those since the boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if HAS_PROC else time.time()


def seconds(start: int) -> float:
    """Return the start of a process, as `start_of` returns it, in the seconds of `now`."""
    return start / (os.sysconf("SC_CLK_TCK") if HAS_PROC else 1000)


def exists(pid: int) -> bool:
    """Return whether a process has the pid, be it a zombie."""
    return psutil.pid_exists(pid)


def children(pid: int) -> list[int]:
    """Return the children of a process, oldest first; psutil looks through all processes to find them."""
    try:
        return [*map(int, read(f"/proc/{pid}/task/{pid}/children").split())]
    except OSError:
        return []


def tree(root: int) -> Iterator[int]:
    """Yield a process and all below it, also what threads of theirs started."""
    ahead = [root]
    while ahead:
        pid = ahead.pop()
        yield pid
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                with suppress(OSError):
                    ahead += map(int, read(f"/proc/{pid}/task/{task}/children").split())


def times() -> dict[int, float]:
    """Return the seconds of processor time of every process, with those of its children that have ended."""
    ticks = os.sysconf("SC_CLK_TCK")
    found: dict[int, float] = {}
    for pid in psutil.pids():
        with suppress(OSError):
            text = read(f"/proc/{pid}/stat")
            found[pid] = sum(map(int, text[text.rfind(b")") + 2 :].split()[11:15])) / ticks
    return found


def read(file: str) -> bytes:
    """Return what a file of /proc says; open() takes three times as long, for each of thousands."""
    descriptor, content = os.open(file, os.O_RDONLY | os.O_CLOEXEC), b""
    try:
        while more := os.read(descriptor, 1 << 16):
            content += more
    finally:
        os.close(descriptor)
    return content


def alive(identities: Iterable[Identity]) -> list[Identity]:
    """Return those of these processes that live."""
    return [identity for identity in identities if start_of(identity.pid) == identity.start]


def command_name(pid: int) -> str:
    """Return the short name of a process, printable."""
    name = ""
    with suppress(psutil.Error, OSError):
        comm = read(f"/proc/{pid}/comm").decode(errors="replace").rstrip("\n") if HAS_PROC else ""
        name = comm or psutil.Process(pid).name()
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "a process"


def short_hash(content: bytes) -> str:
    """Return eight hex digits for this content."""
    return hashlib.sha256(content).hexdigest()[:8]


def _facts(pid: int) -> tuple[str, int, int, int] | None:
    """Return state, parent, session and start of a process; None for what is gone or a zombie."""
    if not HAS_PROC:
        return _facts_without_proc(pid)
    try:
        text = read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name stands in brackets and may hold brackets and spaces itself.
    fields = text[text.rfind(b")") + 2 :].split()
    state = fields[0].decode()
    return None if state in "ZXx" else (state, int(fields[1]), int(fields[3]), int(fields[19]))


def _facts_without_proc(pid: int) -> tuple[str, int, int, int] | None:
    try:
        known = psutil.Process(pid)
        with known.oneshot():
            status, parent, start = known.status(), known.ppid(), int(known.create_time() * 1000)
        session = os.getsid(pid)
    except (psutil.Error, OSError):
        return None
    if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return None
    return ("T" if status == psutil.STATUS_STOPPED else "S"), parent, session, start


def _marker(pid: int) -> str:
    try:
        return psutil.Process(pid).environ().get("SYMPHONY_ID", "")
    except (psutil.Error, OSError):
        return ""
