"""Reads and follows the log files of processes, in tmux and in Slurm, as lines merged by time."""

from __future__ import annotations

import heapq
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from symphony.backends.observe import LogLine, ProcessStatus
from symphony.plan.problems import count
from symphony_tmux import logs
from symphony_tmux.logs import IndexEntry, Part
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.observe import log_trouble, signal_name

# Terminal escapes: colours, cursor moves and titles.
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[ -/]*[0-~])")
# All escapes except colours, which are kept for terminals.
_MOVES = re.compile(rf"(?!\x1b\[[0-9;:]*m){_ESCAPES.pattern}")
# The prefix of a shell's error that names symphony's launch file.
_SHELL_PREFIX = re.compile(r"^\S*/processes/\S+/launch(@\d+)?\.sh: (line )?\d+: ")
# Bash's line about a program of a script that a signal ended: `21331 Killed    sleep 5000`.
_KILLED_PROGRAM = re.compile(r"\d+ [A-Z][a-z ]+(\(core dumped\))?\s{2,}(?P<program>\S.*)")
_POLL_SECONDS = 0.1
# A restarting process has no attempt for a moment, so it counts as ended only after this long.
_ENDED_AFTER = 1.5
# How many parts of a fast process's log are read before the next process's.
_PARTS = 4
_LONGEST = 1 << 20
_WIDEST = 120


def merge_lines(
    processes: Mapping[str, Mapping[str, Any]],
    paths: Sequence[str],
    *,
    since: float | None,
    tail: int | None,
    alive: Callable[[], bool] | None = None,
) -> Iterator[LogLine]:
    """Yield the lines of processes in the order of time; with alive, also new lines until it returns False.

    alive is called when no line has come for a while.
    """
    readers = [_Reader(path, processes[path]) for path in paths]
    yield from heapq.merge(*(reader.lines_so_far(since, tail) for reader in readers), key=_time)
    if alive is not None:
        yield from _follow(readers, alive)


def last_lines(log: str, count: int) -> tuple[str, ...]:
    """Return the last non-empty lines since the last start, without symphony's own lines."""
    lines = [line for line in logs.last(log, count).split(b"\n") if not line.startswith(launch_file.NOTE)]
    return tuple(text for line in lines if (text := _as_text(line).rstrip()))


def _follow(readers: Sequence[_Reader], alive: Callable[[], bool]) -> Iterator[LogLine]:
    quiet_since, has_ended = time.monotonic(), False
    while True:
        has_printed = False
        for line in chain.from_iterable(reader.new_lines() for reader in readers):
            has_printed = True
            yield line
        behind = any(reader.is_behind for reader in readers)
        if has_printed or behind:
            quiet_since, has_ended = time.monotonic(), False
        elif has_ended:
            return
        elif time.monotonic() - quiet_since > _ENDED_AFTER:
            # Another round follows, for lines printed before the end but after the last read.
            has_ended = not alive()
            quiet_since = time.monotonic()
        if not behind:
            time.sleep(_POLL_SECONDS)


class _Reader:
    """The log of a process: its lines so far, then new lines."""

    def __init__(self, path: str, process: Mapping[str, Any]) -> None:
        self.path = path
        self.log = Path(str(process["log"]))
        self.is_behind = False
        self._rest = b""
        self._events = logs.new_events(self.log)
        self._ended: list[LogLine] = []
        self._stream: Iterator[Part | None] = iter(())  # None: everything is read

    def lines_so_far(self, since: float | None, tail: int | None) -> Iterator[LogLine]:
        """Yield the lines so far; new_lines() continues from there."""
        if trouble := log_trouble(str(self.log)):
            yield LogLine(self.path, f"[symphony: {trouble}]")
        ends = [end for end in self._ends() if (end.time or 0) >= (since or 0)]
        position = logs.end(self.log)
        self._stream = logs.follow(self.log, position)
        printed = self._printed(logs.read(self.log, since=since or 0, tail=tail, until=position))
        if tail is not None:
            # The last lines of the program, and the ends of attempts among them.
            last = list(printed)
            first = _time(last[0]) if last else math.inf
            printed, ends = iter(last), [end for end in ends if _time(end) >= first] or ends[-1:]
        yield from heapq.merge(printed, ends, key=_time)

    def new_lines(self) -> Iterator[LogLine]:
        """Yield lines since the last call, at most a few parts."""
        # Ends are read before lines, so that every line printed before an end is seen.
        self._ended += self._ends()
        for part in islice(self._stream, _PARTS):
            self.is_behind = part is not None
            if part is not None:
                yield from self.lines(part)
                continue
            ended, self._ended = self._ended, []
            if ended:
                yield from self._unfinished(time.time())
            yield from (replace(end, time=time.time()) for end in ended)
            return

    def lines(self, part: Part) -> list[LogLine]:
        *whole, rest = (self._rest + part.data).split(b"\n")
        # Keep only the last text of a progress bar, and split an endless line.
        rest = rest[rest.rstrip(b"\r").rfind(b"\r") + 1 :]
        if len(rest) > _LONGEST:
            whole, rest = [*whole, rest], b""
        self._rest = rest
        return [self._line(line, part.time) for line in whole]

    def _line(self, raw: bytes, moment: float) -> LogLine:
        return LogLine(self.path, _as_text(raw, _MOVES), moment or None)

    def _printed(self, parts: Iterable[Part]) -> Iterator[LogLine]:
        moment = 0.0
        for part in parts:
            moment = part.time
            yield from self.lines(part)
        yield from self._unfinished(moment)

    def _unfinished(self, moment: float) -> Iterator[LogLine]:
        """Yield a last line without a newline, such as a prompt or a progress bar."""
        if self._rest:
            rest, self._rest = self._rest, b""
            yield self._line(rest, moment)

    def _ends(self) -> list[LogLine]:
        """Return the ends of attempts since the last call."""
        fresh = next(self._events)
        ended = [entry for entry in fresh if entry.event in logs.ENDS]
        return [LogLine(self.path, f"ended: {end_reason(entry)}", entry.time, ended=True) for entry in ended]


def starting_again(status: ProcessStatus, log: str, attempt: int) -> ProcessStatus:
    """Return the status of a process that its supervisor restarts, which waits between two starts."""
    attempts = logs.attempts(log)
    if not attempts or attempts[-1][0] < attempt:
        # The supervisor of this attempt has not started it yet.
        return status
    status = replace(status, restarts=logs.restarts(log))
    if status.state != "running":
        return status
    _, began, end = attempts[-1]
    if end is None:
        before = attempts[-2][2] if len(attempts) > 1 else None
        # If a rotation of the log lost the start, use the time of the launch.
        return replace(status, since=began or status.since, last=end_reason(before) if before else "")
    words = last_lines(log, 5)
    why = ": ".join([f"restarting after {end_reason(end)}", *(line.strip()[:_WIDEST] for line in words[-1:])])
    return replace(status, state="waiting", ready=False, why=why, since=end.time, pid=None, words=words[-3:])


def after_restarts(process: Mapping[str, Any]) -> str:
    """Return ` after 5 restarts` for a process that its supervisor has restarted, else an empty string."""
    again = logs.restarts(str(process["log"])) if process.get("restart_policy") else 0
    return f" after {count(again, 'restart')}" if again else ""


def _time(line: LogLine) -> float:
    return line.time or 0


def _as_text(raw: bytes, without: re.Pattern[str] = _ESCAPES) -> str:
    """Return a line as a terminal shows it, without the overwritten text of a progress bar."""
    text = without.sub("", raw.decode(errors="replace").rstrip("\r").rpartition("\r")[2])
    return _SHELL_PREFIX.sub("", text) if "/launch" in text else text


def killed_program(exit_code: int | None, words: Sequence[str]) -> str:
    """Return `killed by SIGKILL: sleep 5000` if a signal ended a program of a script, else empty."""
    line = _KILLED_PROGRAM.fullmatch(words[-1].strip()) if words else None
    if line is None or exit_code is None or exit_code <= 128:
        return ""
    return f"killed by {signal_name(exit_code - 128)}: {line['program']}"


def last_end(process: Mapping[str, Any]) -> IndexEntry | None:
    """Return the end of the last attempt of a process; None if it has not ended."""
    attempts = logs.attempts(str(process["log"]))
    return attempts[-1][2] if attempts else None


def end_reason(entry: IndexEntry) -> str:
    """Return the end of an attempt as `exit 1` or `SIGKILL`."""
    return signal_name(entry.number) if entry.event == "signal" else f"exit {entry.number}"
