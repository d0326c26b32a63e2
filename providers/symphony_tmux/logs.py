"""Reads what processes printed, with the time of each part; the tmux backend's `logs` and status ask here.

The supervisor writes beside each log an index of "<time> <offset> [event]" lines, at most four a second; a
full log is moved to log.1 with its index. Offsets are those of the file they lie beside.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

LINE = re.compile(rb"(\d+\.\d+) (\d+)(?: (start|again|more|exit|signal) (\d+)(?: (\d+))?)?")
# Marks are this far apart at least, so what came at a time can lie in the part before.
RESOLUTION = 0.25


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of an index: from this offset on the log was written at this time or later.

    number: the attempt; of an end its exit code or signal. restarts: by the supervisor, in this attempt.
    """

    time: float
    offset: int
    event: str = ""
    number: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that came at this time (0: not known) in this attempt (0: not known)."""

    time: float
    attempt: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader is: the file it reads, by inode, and the offset in it."""

    inode: int = 0
    offset: int = 0


def marks(log: Path | str) -> list[Mark]:
    """The index of one log file; a line that a full disk cut off is left out."""
    index = Path(log).with_name(Path(log).name.replace("log", "index", 1))
    try:
        lines = index.read_bytes().splitlines()
    except OSError:
        return []
    return [_mark(match) for line in lines if (match := LINE.fullmatch(line))]


def attempts(log: Path | str) -> list[tuple[int, float, Mark | None]]:
    """Every attempt the index still knows: number, when it began, the mark of its end if it has ended."""
    found: list[tuple[int, float, Mark | None]] = []
    for mark in [*marks(Path(f"{log}.1")), *marks(log)]:
        if mark.event in ("start", "again"):
            found.append((mark.number, mark.time, None))
        elif mark.event in ("exit", "signal") and found:
            found[-1] = (*found[-1][:2], mark)
    return found


def restarts(log: Path | str) -> int:
    """How often the supervisor has started the process again in this attempt."""
    known = marks(log) or marks(Path(f"{log}.1"))
    return next((mark.restarts for mark in reversed(known) if mark.event in ("start", "again", "more")), 0)


def read(
    log: Path | str, *, since: float = 0, tail: int | None = None, until: Position | None = None
) -> list[Part]:
    """All parts, oldest first, of both files; of those since then, and of the last lines only.

    until: where a reader stands that will follow from there, so that nothing is read twice.
    """
    parts = [part for file in (Path(f"{log}.1"), Path(log)) for part in _parts(file, until)]
    if since:
        parts = [part for part in parts if part.time + RESOLUTION > since]
    return parts if tail is None else _tail(parts, tail)


def index_size(log: Path | str) -> int:
    """How long the index of a log is; it grows with every mark."""
    try:
        return Path(log).with_name("index").stat().st_size
    except OSError:
        return 0


def end(log: Path | str) -> Position:
    """Where a reader that has read everything stands."""
    try:
        facts = os.stat(log)  # noqa: PTH116
    except OSError:
        return Position()
    return Position(facts.st_ino, facts.st_size)


def follow(log: Path | str, position: Position | None = None, pause: float = 0.1) -> Iterator[Part | None]:
    """What is appended from there on, over rotations; None when there is nothing new, then a short pause."""
    at = position or Position()
    while True:
        data, at = _read_on(Path(log), at)
        if data:
            yield Part(time.time(), 0, data)
        else:
            yield None
            time.sleep(pause)


def _read_on(log: Path, at: Position) -> tuple[bytes, Position]:
    moved = log.with_name(log.name + ".1")
    if not at.inode:
        return _read_from(log, 0, at)
    if _inode(log) == at.inode:
        return _read_from(log, at.offset, at)
    if _inode(moved) == at.inode:
        data, position = _read_from(moved, at.offset, at)
        return (data, position) if data else _read_from(log, 0, at)
    # Moved twice since the last look: what is left begins with the moved file.
    return _read_from(moved if moved.exists() else log, 0, at)


def _read_from(file: Path, offset: int, otherwise: Position) -> tuple[bytes, Position]:
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            data = opened.read(1 << 20)
            return data, Position(os.fstat(opened.fileno()).st_ino, offset + len(data))
    except OSError:
        return b"", otherwise


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return 0


def _parts(file: Path, until: Position | None) -> Iterator[Part]:
    try:
        with file.open("rb") as opened:
            is_last = until is not None and os.fstat(opened.fileno()).st_ino == until.inode
            data = opened.read(until.offset) if until is not None and is_last else opened.read()
    except OSError:
        return
    known = marks(file)
    first = known[0].offset if known else len(data)
    if first:
        yield Part(0, 0, data[:first])
    attempt = 0
    for mark, following in zip_longest(known, known[1:]):
        attempt = mark.number if mark.event in ("start", "again", "more") else attempt
        part = data[mark.offset : following.offset if following else len(data)]
        if part:
            yield Part(mark.time, attempt, part)


def _tail(parts: list[Part], lines: int) -> list[Part]:
    """A line may lie in several parts, so they are cut where it begins in the whole."""
    whole = b"".join(part.data for part in parts).splitlines(keepends=True)
    skipped = sum(map(len, whole[: max(0, len(whole) - lines)]))
    found: list[Part] = []
    for part in parts:
        kept = part.data[skipped:]
        skipped = max(0, skipped - len(part.data))
        if kept:
            found.append(replace(part, data=kept))
    return found


def _mark(match: re.Match[bytes]) -> Mark:
    moment, offset, event, number, restarts = match.groups()
    return Mark(float(moment), int(offset), (event or b"").decode(), int(number or 0), int(restarts or 0))
