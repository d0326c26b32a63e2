"""Facts of this machine and its processes, from /proc or psutil."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from symphony.paths import host as host
from symphony_tmux.processes.process_id import Identity as Identity
from symphony_tmux.processes.process_id import Process as Process

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Differs after every boot."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _without_proc().boot_id()


def scan() -> list[Process]:
    """Every living process of the machine, zombies left out; one pass."""
    if not HAS_PROC:
        return _without_proc().scan()
    pids = [int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit()]
    return [result for pid in pids if (result := _by_proc(pid)) is not None]


def process(pid: int) -> Process | None:
    """The living process of that pid."""
    return _by_proc(pid) if HAS_PROC else _without_proc().process(pid)


def start_of(pid: int) -> int:
    """The start time of a living process in the unit of this machine, 0 when there is none."""
    if not HAS_PROC:
        result = process(pid)
        return result.start if result else 0
    facts = _stat(pid)
    return facts[4] if facts else 0


def exists(pid: int) -> bool:
    """Somebody has the pid, be it a zombie."""
    return (PROC / str(pid)).exists() if HAS_PROC else _without_proc().exists(pid)


def children(pid: int) -> list[int]:
    """Its living and dead children, in the order of their start; none where the system does not tell."""
    try:
        return [int(each) for each in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def alive(identities: Iterable[Identity]) -> list[Identity]:
    return [identity for identity in identities if start_of(identity.pid) == identity.start]


def command_name(pid: int) -> str:
    """The short name of a process, printable."""
    try:
        file = PROC / str(pid) / "comm"
        name = file.read_text(errors="replace").strip() if HAS_PROC else _without_proc().name(pid)
    except OSError:
        return "a process"
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "a process"


def _without_proc() -> ModuleType:
    """Loaded only where it is needed: psutil costs `symphony ls` more than the listing."""
    from symphony_tmux.processes import process_table_psutil

    return process_table_psutil


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
    _, result, rest = text.partition(b"\0SYMPHONY_ID=")
    return rest.partition(b"\0")[0].decode(errors="replace") if result else ""


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]
