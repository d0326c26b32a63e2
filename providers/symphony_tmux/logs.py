"""Reads what processes printed, with the time of each part.

The supervisor writes beside each log an index of "<time> <offset> [event]" lines, at most four a second; a
full log is moved to log.1 with its index. Offsets are those of the file they lie beside.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path

from symphony import files

LINE = re.compile(rb"^(\d+\.\d+) (\d+)(?: (start|again|more|exit|signal) (\d+)(?: (\d+))?)?$", re.MULTILINE)
# Search for the words: most of the hundreds of thousands of lines have none.
EVENT = re.compile(rb" (?:start|again|more|exit|signal) .*")
ENDS = ("exit", "signal")
# Marks are this far apart at least, so what came at a time can lie in the part before.
RESOLUTION = 0.25
BLOCK = 1 << 16
PIECE = 1 << 18
_READ_AT_FIRST = 1 << 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of an index: from this offset on the log was written at this time or later.

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
    """The place of a reader: the inode of its file, and the offset in it."""

    inode: int = 0
    offset: int = 0


def attempts(log: Path | str) -> list[tuple[int, float, Mark | None]]:
    """Return every attempt in the index: number, time of its begin, the mark of its end if it has ended.

    The time is 0 for an attempt whose begin was lost in a rotation of the log.
    """
    result: list[tuple[int, float, Mark | None]] = []
    for mark in events(log):
        if mark.event in ("start", "again"):
            result.append((mark.number, mark.time, None))
        elif mark.event == "more" and (not result or result[-1][0] != mark.number):
            result.append((mark.number, 0, None))
        elif mark.event in ENDS and result:
            result[-1] = (*result[-1][:2], mark)
    return result


def restarts(log: Path | str) -> int:
    """Return how often the supervisor has started the process again in this attempt."""
    return next((mark.restarts for mark in reversed(events(log)) if mark.event not in ENDS), 0)


def events(log: Path | str) -> tuple[Mark, ...]:
    """Return the marks of begins and ends; read once for several questions in a row."""
    index = _index(Path(log))
    return _events_of(Path(log), end(_moved(index)), end(index))


@lru_cache(maxsize=1)
def _events_of(log: Path, _older: Position, _newer: Position) -> tuple[Mark, ...]:
    return tuple(next(new_events(log)))


def new_events(log: Path | str) -> Iterator[list[Mark]]:
    """Yield the events so far, then with each step the new ones, over rotations."""
    index, rest = _index(Path(log)), b""
    at = Position(end(_moved(index)).inode)
    while True:
        result: list[Mark] = []
        while True:
            inode = at.inode
            data, at = _read_on(index, at)
            if not data:
                break
            # A line that a full disk cut off is not continued in the next file.
            lines, _, rest = ((rest if at.inode == inode else b"") + data).rpartition(b"\n")
            result += _events(lines)
        yield result


def read(
    log: Path | str, *, since: float = 0, tail: int | None = None, until: Position | None = None
) -> Iterator[Part]:
    """Yield the parts of both files, oldest first: since a time, of the last lines only, or all.

    until: where a reader stands that will follow from there, so that nothing is read twice.
    """
    result = _stretches(log, until) if tail is None else _last(_stretches(log, until), tail)
    # Open both first: the newer file may move while the older one is read.
    for stretch, index in [(stretch, _whole(_index(stretch.file))) for stretch in result]:
        yield from _parts(stretch, index, since)


def last(log: Path | str, lines: int, limit: int = 1 << 16) -> bytes:
    """Return the last lines of the last attempt, up to a limit of bytes; reads only the end of the files."""
    result = b"".join(stretch.data() for stretch in _last(_stretches(log), lines, limit))
    begun = next((mark for mark in reversed(events(log)) if mark.event not in ENDS), None)
    # An attempt that began in the file before has all of this file.
    own = end(log).offset - begun.offset if begun is not None and begun.event != "more" else limit
    return result[-min(limit, own) :] if own > 0 else b""


def end(log: Path | str) -> Position:
    """Return the position of a reader that has read everything."""
    try:
        facts = os.lstat(log)
    except OSError:
        return Position()
    return Position(facts.st_ino, facts.st_size) if stat.S_ISREG(facts.st_mode) else Position()


def follow(log: Path | str, position: Position | None = None, pause: float = 0.1) -> Iterator[Part | None]:
    """Yield what is appended after a position, over rotations; None and a pause where nothing is new."""
    at = position or Position()
    while True:
        data, at = _read_on(Path(log), at)
        if data:
            yield Part(time.time(), 0, data)
        else:
            yield None
            time.sleep(pause)


def _read_on(log: Path, at: Position) -> tuple[bytes, Position]:
    there = end(log)
    if there == at:
        return b"", at
    if there.inode == at.inode or not at.inode:
        # A file that shrank was emptied.
        return _read(log, Position(there.inode, at.offset if at.offset <= there.offset else 0))
    before = end(_moved(log))
    if before.inode == at.inode:
        data, position = _read(_moved(log), at)
        return (data, position) if data else _read(log, Position(there.inode))
    # Rotated twice since the last read: the rest begins with the rotated file.
    return _read(_moved(log), Position(before.inode)) if before.inode else _read(log, Position(there.inode))


def _read(file: Path, at: Position, length: int = PIECE) -> tuple[bytes, Position]:
    """Return what follows in a file; nothing where another file has its name now."""
    try:
        with files.open_regular(file) as opened:
            if os.fstat(opened.fileno()).st_ino != at.inode:
                return b"", at
            opened.seek(at.offset)
            data = opened.read(length)
    except OSError:
        return b"", at
    return data, replace(at, offset=at.offset + len(data))


def _moved(file: Path) -> Path:
    return file.with_name(file.name + ".1")


def _index(log: Path) -> Path:
    return log.with_name(log.name.replace("log", "index", 1))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A piece of one file, which is found again where a rotation moved it."""

    file: Path
    inode: int
    start: int
    end: int

    def data(self) -> bytes:
        at = Position(self.inode, self.start)
        return _read(self.file, at, len(self))[0] or _read(_moved(self.file), at, len(self))[0]

    def piece(self, start: int) -> bytes:
        """Return the bytes from this offset on, up to PIECE of them."""
        return replace(self, start=start, end=min(start + PIECE, self.end)).data()

    def __len__(self) -> int:
        return self.end - self.start


def _whole(file: Path) -> _Stretch:
    there = end(file)
    return _Stretch(file, there.inode, 0, there.offset)


def _stretches(log: Path | str, until: Position | None = None) -> list[_Stretch]:
    """Return both files as they are now, the older first, up to where a reader stands."""
    result: list[_Stretch] = []
    for stretch in (_whole(_moved(Path(log))), _whole(Path(log))):
        if until is not None and stretch.inode == until.inode:
            return [*result, replace(stretch, end=until.offset)]
        result.append(stretch)
    return result


def _last(stretches: list[_Stretch], lines: int, limit: int | None = None) -> list[_Stretch]:
    """Return their ends with so many lines, found from behind; a line may begin in the older file.

    limit: after about so many bytes the search ends.
    """
    breaks, seen = lines, 0
    result: list[_Stretch] = []
    for stretch in reversed(stretches):
        at = stretch.end
        while at > stretch.start and (limit is None or seen < limit):
            begin = max(stretch.start, at - BLOCK)
            data = replace(stretch, start=begin, end=at).data()
            # A newline at the end begins no further line.
            breaks += 1 if not seen and data.endswith(b"\n") else 0
            seen += at - begin
            if (there := data.count(b"\n")) >= breaks:
                start = begin + _nth_from_behind(data, breaks)
                return [replace(stretch, start=start), *result]
            breaks, at = breaks - there, begin
        result.insert(0, replace(stretch, start=at))
    return result


def _nth_from_behind(data: bytes, number: int) -> int:
    """Return the offset behind the line break with this number, counted from the end; 0 is the end."""
    at = len(data) + 1
    for _ in range(number):
        at = data.rindex(b"\n", 0, at - 1) + 1
    return min(at, len(data))


def _parts(stretch: _Stretch, index: _Stretch, since: float) -> Iterator[Part]:
    """Yield what of a stretch came since a time, cut where the index has a mark, and into pieces."""
    at, block = 0, b""
    for moment, attempt, begin, stop in _cuts(stretch, index, since):
        while begin < stop:
            if not at <= begin < at + len(block):
                at, block = begin, stretch.piece(begin)
            if not block:
                # It was rotated twice meanwhile, and is gone.
                return
            data = block[begin - at : stop - at]
            yield Part(moment, attempt, data)
            begin += len(data)


def _cuts(stretch: _Stretch, index: _Stretch, since: float) -> Iterator[tuple[float, int, int, int]]:
    """Yield time, attempt, begin and end of the pieces of a stretch."""
    attempt = 0
    marks = chain([Mark(0, 0)], _marks(index, stretch.start, since), [Mark(0, stretch.end)])
    for mark, following in pairwise(marks):
        attempt = mark.number if mark.event and mark.event not in ENDS else attempt
        begin, stop = max(mark.offset, stretch.start), min(following.offset, stretch.end)
        if begin < stop and (not since or mark.time + RESOLUTION > since):
            yield mark.time, attempt, begin, stop


def _marks(index: _Stretch, start: int, since: float) -> Iterator[Mark]:
    """Yield the marks of an index; before that offset or time only events and the last mark."""
    for lines in _lines(index):
        last = LINE.fullmatch(lines, lines.rfind(b"\n") + 1)
        if last and (int(last[2]) <= start or float(last[1]) + RESOLUTION <= since):
            yield from _events(lines)
            yield _mark(last)
        else:
            yield from map(_mark, LINE.finditer(lines))


def _lines(index: _Stretch) -> Iterator[bytes]:
    """Yield the whole lines of an index, many at a time; the last one may still be written."""
    rest = b""
    for start in range(index.start, index.end, PIECE):
        lines, _, rest = (rest + index.piece(start)).rpartition(b"\n")
        yield lines


def _events(lines: bytes) -> Iterator[Mark]:
    for event in EVENT.finditer(lines):
        # A line that a full disk cut off is left out.
        if match := LINE.fullmatch(lines, lines.rfind(b"\n", 0, event.start()) + 1, event.end()):
            yield _mark(match)


def _mark(match: re.Match[bytes]) -> Mark:
    moment, offset, event, number, restarts = match.groups()
    return Mark(float(moment), int(offset), (event or b"").decode(), int(number or 0), int(restarts or 0))


@dataclass
class _Reader:
    """A reader of the output of one start of a process; rest: the beginning of a line."""

    start: str
    parts: Iterator[Part | None]
    rest: bytes


class Outputs:
    """The output of the processes of an experiment, for its supervisor; log_of: the log of a process."""

    def __init__(self, log_of: Callable[[str], Path]) -> None:
        self._log_of = log_of
        self._readers: dict[str, _Reader] = {}

    def new_lines(self, path: str, start: str) -> Iterable[str]:
        """Return the output of this start of a process since the last call."""
        log, reader = self._log_of(path), self._readers.get(path)
        if reader is None or reader.start != start:
            position = end(log)
            first = last(log, _READ_AT_FIRST, _READ_AT_FIRST)
            reader = self._readers[path] = _Reader(start, follow(log, position, 0), first)
        new = b""
        for part in reader.parts:
            if part is None or len(new) > _READ_AT_FIRST:
                break
            new += part.data
        lines, _, reader.rest = (reader.rest + new).rpartition(b"\n")
        return lines.decode(errors="replace").splitlines()

    def last_lines(self, path: str, lines: int) -> list[str]:
        """Return the last lines of output of a process."""
        return last(self._log_of(path), lines).decode(errors="replace").splitlines()
