"""The log files of processes as lines, merged by time, and what is appended to them; observe calls it."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from symphony.backends.interface import LogLine
from symphony.plan.problems import count
from symphony_tmux import logs as files
from symphony_tmux.logs import Mark, Part
from symphony_tmux.observe import signal_name

# Colours, cursor moves and titles: a terminal's business, not a log's.
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[ -/]*[0-~])")
_ROUND = 0.1
# A process that is started again has no attempt for a moment: only after this long is it taken to have ended.
_ENDED_AFTER = 1.5


def merged(
    processes: Mapping[str, Mapping[str, Any]],
    paths: Sequence[str],
    *,
    since: float | None,
    tail: int | None,
    follow: bool,
    alive: Callable[[], bool],
) -> Iterator[LogLine]:
    """The lines of some processes in the order of time; with follow, those to come until all have ended.

    alive tells, when nothing comes any more, whether something still could.
    """
    readers = [_Reader(path, processes[path]) for path in paths]
    yield from heapq.merge(*(reader.past(since, tail) for reader in readers), key=lambda line: line.time or 0)
    if follow:
        yield from _following(readers, alive)


def last_lines(log: str, count: int) -> tuple[str, ...]:
    """The last lines of a log that say something."""
    lines = [_shown(line).strip() for line in files.last(log, count).split(b"\n")]
    return tuple(line for line in lines if line)


def _following(readers: Sequence[_Reader], alive: Callable[[], bool]) -> Iterator[LogLine]:
    quiet_since = time.monotonic()
    while True:
        lines = [line for reader in readers for line in reader.news()]
        yield from sorted(lines, key=lambda line: line.time or 0)
        if lines:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > _ENDED_AFTER:
            if all(reader.has_ended() for reader in readers) or not alive():
                return
            quiet_since = time.monotonic()
        time.sleep(_ROUND)


class _Reader:
    """One process's log: what is there, then what comes."""

    def __init__(self, path: str, facts: Mapping[str, Any]) -> None:
        self.path = path
        self.log = Path(str(facts["log"]))
        self._comes_again = bool(facts.get("restart_policy"))
        self._rest = b""
        self._told: set[Mark] = set()
        self._index = 0
        self._stream: Iterator[Part | None] = iter(())

    def past(self, since: float | None, tail: int | None) -> list[LogLine]:
        """The lines there are; where they end is where news() begins."""
        position = files.end(self.log)
        self._stream = files.follow(self.log, position, pause=0)
        parts = files.read(self.log, since=since or 0, tail=tail, until=position)
        lines = [line for part in parts for line in self.lines(part)]
        # A prompt or a progress bar has no end of line yet; it is output all the same.
        if self._rest:
            lines.append(self._line(self._rest, parts[-1].time))
            self._rest = b""
        ends = [end for end in self._ends() if (end.time or 0) >= (since or 0)]
        return sorted([*lines, *ends], key=lambda line: line.time or 0)

    def news(self) -> list[LogLine]:
        """The lines that came since the last call."""
        # The ends first: what is read after them holds all that was printed before them.
        ends = self._ends()
        lines: list[LogLine] = []
        while (part := next(self._stream)) is not None:
            lines += self.lines(part)
        now = time.time()
        return [*lines, *(replace(end, time=now) for end in ends)]

    def has_ended(self) -> bool:
        """Whether the last attempt has ended, or the log went with its experiment."""
        attempts = files.attempts(self.log)
        ended = not attempts or (attempts[-1][2] is not None and not self._comes_again)
        return ended or not self.log.exists()

    def lines(self, part: Part) -> list[LogLine]:
        *whole, self._rest = (self._rest + part.data).split(b"\n")
        return [self._line(line, part.time) for line in whole]

    def _line(self, raw: bytes, moment: float) -> LogLine:
        return LogLine(self.path, _shown(raw), moment or None)

    def _ends(self) -> list[LogLine]:
        """How attempts ended, each told once; the index is only read again when it grew."""
        size = files.index_size(self.log)
        if size == self._index:
            return []
        self._index = size
        ended = [mark for _, _, mark in files.attempts(self.log) if mark is not None]
        fresh = [mark for mark in ended if mark not in self._told]
        self._told.update(fresh)
        return [LogLine(self.path, f"ended: {how(mark)}", mark.time, ended=True) for mark in fresh]


def after_restarts(facts: Mapping[str, Any]) -> str:
    """` after 5 restarts`: how often a process that has ended for good was started again by its policy."""
    again = files.restarts(str(facts["log"])) if facts.get("restart_policy") else 0
    return f" after {count(again, 'restart')}" if again else ""


def _shown(raw: bytes) -> str:
    """A line as it stands on a terminal: what a progress bar overwrote is gone there too."""
    return _ESCAPES.sub("", raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2])


def how(mark: Mark) -> str:
    """`exit 1`, `SIGKILL`: the end of an attempt."""
    return signal_name(mark.number) if mark.event == "signal" else f"exit {mark.number}"
