"""Reads the logs of processes, with the times of their parts.

Beside each log its supervisor writes an index of "<time> <offset> [event]" lines, at most four a second. A
full log and its index are rotated to log.1 and index.1; offsets refer to the log of the same number. Events:

    start ATTEMPT             the first start of an attempt
    again ATTEMPT RESTARTS    a restart by the supervisor in the same attempt
    more ATTEMPT RESTARTS     the continuation after a rotation, at the beginning of the new index
    exit CODE, signal NUMBER  the end of the process
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from symphony import files

LINE = re.compile(rb"^(\d+\.\d+) (\d+)(?: (start|again|more|exit|signal) (\d+)(?: (\d+))?)?$", re.MULTILINE)
# Matches the rare lines with an event quickly.
EVENT = re.compile(rb" (?:start|again|more|exit|signal) .*")
ENDS = ("exit", "signal")
# The minimum seconds between entries: output may be written up to this long after the entry of its part.
RESOLUTION = 0.25
BLOCK = 1 << 16
PIECE = 1 << 18
_READ_AT_ONCE = 1 << 20
_LONGEST_LINE = 200
# More bytes than a log or an index has, before a process itself writes to them: what is older is not read.
_LARGEST = 1 << 30
# Bytes of the last lines that a reader asks for, which may be a progress bar without newlines.
_LARGEST_TAIL = 1 << 24


class IndexEntry(msgspec.Struct, frozen=True):
    """A line of an index: the log was written from this offset on at this time or later.

    number: the attempt, or the exit code or signal of an end. restarts: by the supervisor in this attempt.
    """

    time: float
    offset: int
    event: str = ""
    number: int = 0
    restarts: int = 0


class Part(msgspec.Struct, frozen=True):
    """A piece of output, with its time and its attempt, each 0 if unknown."""

    time: float
    attempt: int
    data: bytes


class Position(msgspec.Struct, frozen=True):
    """The position of a reader: the inode of the file, and the offset in it."""

    inode: int = 0
    offset: int = 0


def attempts(log: Path | str) -> list[tuple[int, float, IndexEntry | None]]:
    """Return attempt, start time and the entry of the end (None without an end) of every start in the index.

    A restart by the supervisor is a further start of the same attempt. The time is 0 if a rotation of the log
    lost the start.
    """
    result: list[tuple[int, float, IndexEntry | None]] = []
    for entry in events(log):
        if entry.event in ("start", "again"):
            result.append((entry.number, entry.time, None))
        elif entry.event == "more" and (not result or result[-1][0] != entry.number):
            result.append((entry.number, 0, None))
        elif entry.event in ENDS and result:
            result[-1] = (*result[-1][:2], entry)
    return result


def restarts(log: Path | str) -> int:
    """Return how often the supervisor has restarted the process in this attempt."""
    return next((entry.restarts for entry in reversed(events(log)) if entry.event not in ENDS), 0)


def events(log: Path | str) -> tuple[IndexEntry, ...]:
    """Return the entries of starts and ends, cached for consecutive calls."""
    index = _index(Path(log))
    return _events_of(Path(log), end(_rotated(index)), end(index))


@lru_cache(maxsize=1)
def _events_of(log: Path, _older: Position, _newer: Position) -> tuple[IndexEntry, ...]:
    return tuple(next(new_events(log)))


def new_events(log: Path | str) -> Iterator[list[IndexEntry]]:
    """Yield the events so far, then the new ones at each step, across rotations."""
    index, rest = _index(Path(log)), b""
    position = Position(end(_rotated(index)).inode)
    while True:
        result: list[IndexEntry] = []
        while True:
            inode = position.inode
            data, position = _read_further(index, position)
            if not data:
                break
            # A line that a full disk truncated does not continue in the next file.
            lines, rest = _split((rest if position.inode == inode else b"") + data)
            result += _events(lines)
        yield result


def read(
    log: Path | str, *, since: float = 0, tail: int | None = None, until: Position | None = None
) -> Iterator[Part]:
    """Yield the parts of both files, oldest first: all, those since a time, or only the last lines.

    tail: the number of last lines, of which at most the last 16 MiB are read.
    until: the end, for a reader that follows from there.
    """
    result = _stretches(log, until) if tail is None else _last(_stretches(log, until), tail, _LARGEST_TAIL)
    # Look up both first: a rotation may happen while the older file is read.
    for stretch, index in [(stretch, _whole_file(_index(stretch.file))) for stretch in result]:
        yield from _parts(stretch, index, since)


def last(log: Path | str, lines: int, limit: int = 1 << 16) -> bytes:
    """Return the last lines of the last start, at most `limit` bytes, without reading the whole files."""
    result = b"".join(stretch.data() for stretch in _last(_stretches(log), lines, limit))
    begun = next((entry for entry in reversed(events(log)) if entry.event not in ENDS), None)
    # If that start is in the rotated file, all of the current file is its output.
    own = end(log).offset - begun.offset if begun is not None and begun.event != "more" else limit
    return result[-min(limit, own) :] if own > 0 else b""


def end(log: Path | str) -> Position:
    """Return the position of a reader that has read everything."""
    try:
        facts = os.lstat(log)
    except OSError:
        return Position()
    return Position(facts.st_ino, facts.st_size) if stat.S_ISREG(facts.st_mode) else Position()


def follow(log: Path | str, position: Position | None = None) -> Iterator[Part | None]:
    """Yield what is appended after a position, across rotations; None if nothing is new."""
    position = position or Position()
    while True:
        data, position = _read_further(Path(log), position)
        if data:
            yield Part(time.time(), 0, data)
        else:
            yield None


def _read_further(log: Path, position: Position) -> tuple[bytes, Position]:
    current = end(log)
    if current == position:
        return b"", position
    if current.inode == position.inode or not position.inode:
        # A smaller file was truncated.
        return _read(
            log, Position(current.inode, position.offset if position.offset <= current.offset else 0)
        )
    before = end(_rotated(log))
    if before.inode == position.inode:
        data, position = _read(_rotated(log), position)
        return (data, position) if data else _read(log, Position(current.inode))
    # Rotated twice since the last read: continue with the rotated file.
    return (
        _read(_rotated(log), Position(before.inode)) if before.inode else _read(log, Position(current.inode))
    )


def _read(file: Path, position: Position, length: int = PIECE) -> tuple[bytes, Position]:
    """Return the bytes after a position; empty if the file has been replaced."""
    try:
        with files.open_regular(file) as opened:
            facts = os.fstat(opened.fileno())
            if facts.st_ino != position.inode:
                return b"", position
            position = replace(position, offset=max(position.offset, facts.st_size - _LARGEST))
            opened.seek(position.offset)
            data = opened.read(length)
    except OSError:
        return b"", position
    return data, replace(position, offset=position.offset + len(data))


def _rotated(file: Path) -> Path:
    return file.with_name(file.name + ".1")


def _index(log: Path) -> Path:
    return log.with_name(log.name.replace("log", "index", 1))


class _Stretch(msgspec.Struct, frozen=True):
    """A range of a file, which may be rotated before it is read."""

    file: Path
    inode: int
    start: int
    end: int

    def data(self) -> bytes:
        position = Position(self.inode, self.start)
        return _read(self.file, position, len(self))[0] or _read(_rotated(self.file), position, len(self))[0]

    def piece(self, start: int) -> bytes:
        """Return up to PIECE bytes from this offset on."""
        return replace(self, start=start, end=min(start + PIECE, self.end)).data()

    def __len__(self) -> int:
        return self.end - self.start


def _whole_file(file: Path) -> _Stretch:
    current = end(file)
    return _Stretch(file, current.inode, max(0, current.offset - _LARGEST), current.offset)


def _stretches(log: Path | str, until: Position | None = None) -> list[_Stretch]:
    """Return the current ranges of both files, the older first, up to a reader's position."""
    result: list[_Stretch] = []
    for stretch in (_whole_file(_rotated(Path(log))), _whole_file(Path(log))):
        if until is not None and stretch.inode == until.inode:
            return [*result, replace(stretch, end=until.offset)]
        result.append(stretch)
    return result


def _last(stretches: list[_Stretch], lines: int, limit: int) -> list[_Stretch]:
    """Return the ranges of the last lines; a line may begin in the older file.

    limit: the search ends after about so many bytes.
    """
    breaks, seen = lines, 0
    result: list[_Stretch] = []
    for stretch in reversed(stretches):
        position = stretch.end
        while position > stretch.start and seen < limit:
            begin = max(stretch.start, position - BLOCK)
            data = replace(stretch, start=begin, end=position).data()
            # A newline at the end does not begin another line.
            breaks += 1 if not seen and data.endswith(b"\n") else 0
            seen += position - begin
            if (current := data.count(b"\n")) >= breaks:
                start = begin + _after_newline_from_end(data, breaks)
                return [replace(stretch, start=start), *result]
            breaks, position = breaks - current, begin
        result.insert(0, replace(stretch, start=position))
    return result


def _after_newline_from_end(data: bytes, number: int) -> int:
    """Return the offset after the nth newline from the end; for number 0 that is the end."""
    position = len(data) + 1
    for _ in range(number):
        position = data.rindex(b"\n", 0, position - 1) + 1
    return min(position, len(data))


def _parts(stretch: _Stretch, index: _Stretch, since: float) -> Iterator[Part]:
    """Yield the parts of a range since a time, split at the entries of the index, and into pieces."""
    position, block = 0, b""
    for time_, attempt, begin, stop in _cuts(stretch, index, since):
        while begin < stop:
            if not position <= begin < position + len(block):
                position, block = begin, stretch.piece(begin)
            if not block:
                # Two rotations have removed it.
                return
            data = block[begin - position : stop - position]
            yield Part(time_, attempt, data)
            begin += len(data)


def _cuts(stretch: _Stretch, index: _Stretch, since: float) -> Iterator[tuple[float, int, int, int]]:
    """Yield time, attempt, start and end of the parts of a range."""
    attempt = 0
    entries = chain([IndexEntry(0, 0)], _entries(index, stretch.start, since), [IndexEntry(0, stretch.end)])
    for entry, following in pairwise(entries):
        attempt = entry.number if entry.event and entry.event not in ENDS else attempt
        begin, stop = max(entry.offset, stretch.start), min(following.offset, stretch.end)
        if begin < stop and (not since or entry.time + RESOLUTION > since):
            yield entry.time, attempt, begin, stop


def _entries(index: _Stretch, start: int, since: float) -> Iterator[IndexEntry]:
    """Yield the entries of an index; of those before `start` or `since`, only events and the last one."""
    for lines in _lines(index):
        last = LINE.fullmatch(lines, lines.rfind(b"\n") + 1)
        if last and (int(last[2]) <= start or float(last[1]) + RESOLUTION <= since):
            yield from _events(lines)
            yield _entry(last)
        else:
            yield from map(_entry, LINE.finditer(lines))


def _lines(index: _Stretch) -> Iterator[bytes]:
    """Yield complete lines of an index, many at a time."""
    rest = b""
    for start in range(index.start, index.end, PIECE):
        lines, rest = _split(rest + index.piece(start))
        yield lines


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Return the complete lines of an index, and the incomplete last one.

    A longer line than any of symphony is dropped: a process can write to its index.
    """
    lines, _, rest = data.rpartition(b"\n")
    return lines, rest if len(rest) <= _LONGEST_LINE else b""


def _events(lines: bytes) -> Iterator[IndexEntry]:
    for event in EVENT.finditer(lines):
        # A line that a full disk truncated does not match.
        if match := LINE.fullmatch(lines, lines.rfind(b"\n", 0, event.start()) + 1, event.end()):
            yield _entry(match)


def _entry(match: re.Match[bytes]) -> IndexEntry:
    time_, offset, event, number, restarts = match.groups()
    return IndexEntry(
        float(time_), int(offset), (event or b"").decode(), int(number or 0), int(restarts or 0)
    )


class _Reader(msgspec.Struct):
    """Reads the output of one start of a process; rest: an incomplete line."""

    start: str
    parts: Iterator[Part | None]
    rest: bytes


class Outputs:
    """The output of the processes of an experiment, for its supervisor; log_of: the log of a process."""

    def __init__(self, log_of: Callable[[str], Path]) -> None:
        self._log_of = log_of
        self._readers: dict[str, _Reader] = {}

    def new_lines(self, path: str, start: str) -> Iterable[str]:
        """Return the new output of this start of a process since the last call."""
        log, reader = self._log_of(path), self._readers.get(path)
        if reader is None or reader.start != start:
            position = end(log)
            first = last(log, _READ_AT_ONCE, _READ_AT_ONCE)
            reader = self._readers[path] = _Reader(start, follow(log, position), first)
        new = b""
        for part in reader.parts:
            if part is None:
                break
            new += part.data
            if len(new) > _READ_AT_ONCE:
                break
        lines, _, reader.rest = (reader.rest + new).rpartition(b"\n")
        return lines.decode(errors="replace").splitlines()

    def last_lines(self, path: str, lines: int) -> list[str]:
        """Return the last lines of output of a process."""
        return last(self._log_of(path), lines).decode(errors="replace").splitlines()
