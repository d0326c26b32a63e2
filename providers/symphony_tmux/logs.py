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
BLOCK = 1 << 16


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
    found: list[Part] = []
    for stretch in _stretches(log, until) if tail is None else _last(_stretches(log, until), tail):
        found += _parts(stretch, since)
    return found


def last(log: Path | str, lines: int, limit: int = 1 << 16) -> bytes:
    """The last lines, not more bytes than the limit; reads only the end of the files."""
    found = b"".join(stretch.data() for stretch in _last(_stretches(log), lines, limit))
    return found[-limit:]


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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """From one offset to another in one file."""

    file: Path
    start: int
    end: int

    def data(self) -> bytes:
        try:
            with self.file.open("rb") as opened:
                opened.seek(self.start)
                return opened.read(self.end - self.start)
        except OSError:
            return b""


def _stretches(log: Path | str, until: Position | None = None) -> list[_Stretch]:
    """Both files as they are now, the older first, up to where a reader stands."""
    found: list[_Stretch] = []
    for file in (Path(f"{log}.1"), Path(log)):
        try:
            facts = file.stat()
        except OSError:
            continue
        is_last = until is not None and facts.st_ino == until.inode
        found.append(_Stretch(file, 0, until.offset if until is not None and is_last else facts.st_size))
        if is_last:
            break
    return found


def _last(stretches: list[_Stretch], lines: int, limit: int | None = None) -> list[_Stretch]:
    """The ends of them that hold so many lines, found from behind; a line may begin in the older file.

    limit: after about so many bytes the search ends.
    """
    breaks, seen = lines, 0
    found: list[_Stretch] = []
    for stretch in reversed(stretches):
        at = stretch.end
        while at > stretch.start and (limit is None or seen < limit):
            begin = max(stretch.start, at - BLOCK)
            data = _Stretch(stretch.file, begin, at).data()
            # The break behind the last line ends it, it begins none.
            breaks += 1 if not seen and data.endswith(b"\n") else 0
            seen += at - begin
            if (there := data.count(b"\n")) >= breaks:
                start = begin + _nth_from_behind(data, breaks)
                return [replace(stretch, start=start), *found]
            breaks, at = breaks - there, begin
        found.insert(0, replace(stretch, start=at))
    return found


def _nth_from_behind(data: bytes, number: int) -> int:
    """The offset behind the line break with this number, counted from the end; 0 is the end."""
    at = len(data) + 1
    for _ in range(number):
        at = data.rindex(b"\n", 0, at - 1) + 1
    return min(at, len(data))


def _parts(stretch: _Stretch, since: float) -> Iterator[Part]:
    """What of a stretch came since then, cut where the index has a mark."""
    known = marks(stretch.file)
    cuts = [Mark(0, 0), *known] if not known or known[0].offset else known
    wanted: list[tuple[Mark, int, int, int]] = []
    attempt = 0
    for mark, following in zip_longest(cuts, cuts[1:]):
        attempt = mark.number if mark.event in ("start", "again", "more") else attempt
        begin = max(mark.offset, stretch.start)
        end = min(following.offset, stretch.end) if following else stretch.end
        if begin < end and (not since or mark.time + RESOLUTION > since):
            wanted.append((mark, attempt, begin, end))
    if not wanted:
        return
    first = wanted[0][2]
    data = replace(stretch, start=first).data()
    for mark, of_attempt, begin, end in wanted:
        if part := data[begin - first : end - first]:
            yield Part(mark.time, of_attempt, part)


def _mark(match: re.Match[bytes]) -> Mark:
    moment, offset, event, number, restarts = match.groups()
    return Mark(float(moment), int(offset), (event or b"").decode(), int(number or 0), int(restarts or 0))
