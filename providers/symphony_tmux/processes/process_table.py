"""Facts about this machine and its processes: on Linux mostly from /proc, else from psutil.

A process is identified by its pid and its start time. On Linux the start is read here, in ticks since the
boot: psutil converts it to a time of day, which changes when the clock is set.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from symphony.paths import host as host

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Identity(msgspec.Struct, frozen=True):
    """A pid with the start time of its process, since pids are reused."""

    pid: int
    start: int


class Stat(NamedTuple):
    """The facts of a living process.

    Attributes:
        start: Its start time, in ticks on Linux, else in milliseconds.
        seconds: Its CPU time, including that of ended children.
        memory: Its memory in bytes.
    """

    pid: int
    stopped: bool
    parent: int
    session: int
    start: int
    seconds: float
    memory: int


class Process(msgspec.Struct, frozen=True):
    """A living process; marker: its SYMPHONY_ID, empty if it has none or cannot be read."""

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
    """Return an identifier of the current boot of this machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def scan() -> list[Process]:
    """Return all living processes of the machine, without zombies."""
    return [living for pid in psutil.pids() if (living := process(pid)) is not None]


def process(pid: int) -> Process | None:
    """Return the living process with a pid, else None."""
    facts = stat(pid)
    if facts is None:
        return None
    return Process(pid, facts.start, facts.parent, facts.session, facts.stopped, _marker(pid))


def start_of(pid: int) -> int:
    """Return the start time of a process, in ticks on Linux, else in milliseconds; 0 if it does not live."""
    facts = stat(pid)
    return facts.start if facts else 0


def stats() -> list[Stat]:
    """Return the facts of all living processes of the machine."""
    return [facts for pid in psutil.pids() if (facts := stat(pid)) is not None]


def stat(pid: int) -> Stat | None:
    """Return the facts of a process; None if it has ended or is a zombie."""
    try:
        return _stat_from_proc(pid) if HAS_PROC else _stat_from_psutil(pid)
    except (psutil.Error, OSError):
        return None


def _stat_from_proc(pid: int) -> Stat | None:
    # psutil takes four times as long for the same file, with a thousand processes a quarter of a second.
    text = read_proc_file(f"/proc/{pid}/stat")
    # The name is in parentheses, and may contain parentheses and spaces.
    fields = text[text.rfind(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X", b"x"):
        return None
    return Stat(
        pid,
        stopped=fields[0] in (b"T", b"t"),
        parent=int(fields[1]),
        session=int(fields[3]),
        start=int(fields[19]),
        seconds=sum(map(int, fields[11:15])) / _TICK,
        memory=int(fields[21]) * _PAGE,
    )


def _stat_from_psutil(pid: int) -> Stat | None:
    names = ("status", "ppid", "create_time", "cpu_times", "memory_info")
    facts = psutil.Process(pid).as_dict(names)  # pyright: ignore[reportUnknownMemberType]
    if facts["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return None
    # Unknown for a process of another user.
    times, memory = facts["cpu_times"], facts["memory_info"]
    return Stat(
        pid,
        stopped=facts["status"] == psutil.STATUS_STOPPED,
        parent=facts["ppid"],
        session=os.getsid(pid),
        start=int(facts["create_time"] * 1000),
        seconds=sum(times[:4]) if times else 0.0,
        memory=memory.rss if memory else 0,
    )


def now() -> float:
    """Return the time in seconds on the clock of start times, which on Linux counts from the boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if HAS_PROC else time.time()


def seconds(start: int) -> float:
    """Convert a start time of `start_of` to seconds on the clock of `now`."""
    return start / (_TICK if HAS_PROC else 1000)


def children(pid: int) -> list[int]:
    """Return the children of a process's main thread, oldest first; psutil would scan all processes."""
    try:
        return [*map(int, read_proc_file(f"/proc/{pid}/task/{pid}/children").split())]
    except OSError:
        return []


def tree(root: int) -> Iterator[int]:
    """Yield a process and its descendants, including children of its threads."""
    pending = [root]
    while pending:
        pid = pending.pop()
        yield pid
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                with suppress(OSError):
                    pending += map(int, read_proc_file(f"/proc/{pid}/task/{task}/children").split())


def read_proc_file(file: str) -> bytes:
    """Return the content of a file of /proc; open() would take three times as long."""
    descriptor, content = os.open(file, os.O_RDONLY | os.O_CLOEXEC), b""
    try:
        while chunk := os.read(descriptor, 1 << 16):
            content += chunk
    finally:
        os.close(descriptor)
    return content


def alive(identities: Iterable[Identity]) -> list[Identity]:
    """Return the processes that are alive."""
    return [identity for identity in identities if start_of(identity.pid) == identity.start]


def command_name(pid: int) -> str:
    """Return the short name of a process, printable."""
    name = ""
    with suppress(psutil.Error, OSError):
        comm = read_proc_file(f"/proc/{pid}/comm").decode(errors="replace").rstrip("\n") if HAS_PROC else ""
        name = comm or psutil.Process(pid).name()
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "a process"


def _marker(pid: int) -> str:
    try:
        return psutil.Process(pid).environ().get("SYMPHONY_ID", "")
    except (psutil.Error, OSError):
        return ""
