"""Reads the kept logs of runs, and finds lines that match a pattern."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from symphony.backends import registry
from symphony.backends.observe import LogLine, Recorded
from symphony.engine.state.file_store import StackName
from symphony.errors import UserError
from symphony.operations import runs, stacks
from symphony.plan.names import quoted

# The resolution of the times in the index of a log, in seconds.
_RESOLUTION = 0.3
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_NEVER = datetime.max.replace(tzinfo=UTC).timestamp()
_UNCHANGED: Mapping[str, Any] = {"kind": "keep"}


def processes(name: StackName, run: runs.Run) -> dict[str, Path]:
    """Return the log file of each process of a run, by its path."""
    folder = runs.logs_of(name, run)
    # No name of a process or a group has a dot.
    folders = sorted(file.parent for file in folder.glob("*/log"))
    return {folder.name.replace(".", "/", 1): folder / "log" for folder in folders}


def spans(name: StackName, run: runs.Run) -> dict[str, tuple[float, float]]:
    """Return the times between which each process of a run printed.

    A process that a run starts again or stops still prints between the start of that run and its own end.
    """
    number, began = _next_run(name, run.number), run.started.timestamp() - _RESOLUTION
    end = runs.read(name, number).started.timestamp() if number else _NEVER
    changes, later = _changes(name, run.number), _changes(name, number) if number else {}
    result: dict[str, tuple[float, float]] = {}
    for path, log in processes(name, run).items():
        change, next_change = changes.get(path, _UNCHANGED), later.get(path, _UNCHANGED)
        begin = _start_in_log(log, began, change) if change["kind"] == "restart" else began
        own_end = _start_in_log(log, end, next_change) if next_change["kind"] in ("restart", "stop") else end
        result[path] = _NEVER if change["kind"] == "stop" else begin, own_end
    return result


def _start_in_log(log: Path, since: float, change: Mapping[str, Any]) -> float:
    """Return when a process was first started since a time, by a change of the plan.

    Without such a start, return `_NEVER` if the log begins with a start, else that time.
    """
    # Imported here: reading commands load this module.
    from symphony_tmux import logs as log_reader

    events = log_reader.events(log)
    # The supervisor restarts a process that restarts with another, as it restarts one that failed.
    begins = ("start", "again") if change.get("follows") else ("start",)
    if starts := [entry.time for entry in events if entry.event in begins and entry.time >= since]:
        return starts[0]
    # The logs of pods have no starts, and a rotation removes the first ones.
    return _NEVER if events and events[0].event == "start" else since


def _changes(name: StackName, number: int) -> dict[str, Mapping[str, Any]]:
    """Return the change of each process in the plan of a run; empty if the plan is not kept."""
    changes: Sequence[Mapping[str, Any]] = runs.plan_file(name, number).get("changes", ())
    return {change["path"]: change for change in changes}


def _next_run(name: StackName, number: int) -> int | None:
    # `results` asks for each run; to list all runs each time would take minutes with thousands.
    if (runs.folder_of(name) / str(number + 1)).is_dir():
        return number + 1
    return next((later for later in runs.numbers(name) if later > number), None)


def logs(
    name: StackName, number: int, words: Sequence[str] = (), since: float = 0, tail: int | None = None
) -> Iterator[LogLine]:
    """Yield the lines of a run in the order of time.

    Args:
        name: The experiment.
        number: The number of the run.
        words: Names, groups or patterns of its processes; by default all.
        since: Omit earlier lines; in seconds since the epoch.
        tail: Omit all but this number of last lines of each process.

    Raises:
        UserError: There is no such run, or a word matches no process.
    """
    run = runs.read(name, number)
    kept = processes(name, run)
    if not kept:
        reason = "; ".join(run.missing) or "its processes printed nothing or never started"
        remedy = f"`symphony history {name.stack}` shows how each run ended"
        raise UserError(f"run {number} of {name.stack} has no logs: {reason}", remedy=remedy)
    paths = stacks.match_processes(words, list(kept))
    by_path = spans(name, run)
    first = min(by_path[path][0] for path in paths)
    records = {path: {"log": str(kept[path])} for path in paths}
    # The logs of pods are kept in the format of tmux logs.
    reader = registry.get(registry.DEFAULT).observer
    lines = reader.logs(Recorded("", name.stack, records), paths, since=max(first, since))
    own = (line for line in lines if by_path[line.path][0] <= (line.time or first) < by_path[line.path][1])
    return own if tail is None else _last(own, tail)


def _last(lines: Iterable[LogLine], tail: int) -> Iterator[LogLine]:
    """Yield the last lines of each process, with the ends among and after them."""
    last, counts = defaultdict[str, deque[LogLine]](deque), defaultdict[str, int](int)
    for line in lines:
        last[line.path].append(line)
        counts[line.path] += not line.ended
        while counts[line.path] > tail:
            counts[line.path] -= not last[line.path].popleft().ended
    for kept in last.values():
        while len(kept) > 1 and kept[0].ended:
            kept.popleft()
    yield from sorted(chain.from_iterable(last.values()), key=lambda line: line.time or 0)


def all_runs(
    name: StackName, words: Sequence[str] = (), since: float = 0, tail: int | None = None
) -> Iterator[LogLine]:
    """Yield the lines of all runs; the path of a process begins with the number of its run."""
    for run in runs.every(name):
        # A run may lack logs, or processes of these names.
        with suppress(UserError):
            for line in logs(name, run.number, words, since, tail):
                yield replace(line, path=f"{run.number}:{line.path}")


def matching(lines: Iterable[LogLine], pattern: str, context: int = 0) -> Iterator[LogLine]:
    """Yield the lines that match a regular expression, with `context` lines of the same process around them.

    Raises:
        UserError: The pattern is not a regular expression.
    """
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise UserError(f"{quoted(pattern)} is not a regular expression: {error}") from None
    before: dict[str, deque[LogLine]] = defaultdict(lambda: deque(maxlen=context))
    after: dict[str, int] = defaultdict(int)
    for line in lines:
        if search(_COLOURS.sub("", line.text)):
            yield from before.pop(line.path, ())
            yield line
            after[line.path] = context
        elif after[line.path]:
            after[line.path] -= 1
            yield line
        elif context:
            before[line.path].append(line)


def number_of(word: str) -> int | None:
    """Return the number of `--run 6`, or None for `--run all`; raise UserError for anything else."""
    if word == "all":
        return None
    if not word.isdecimal():
        raise UserError(
            f"--run {quoted(word)} is not the number of a run", remedy="Write --run 6 or --run all"
        )
    return int(word)


def find(words: Sequence[str]) -> tuple[StackName, Sequence[str]]:
    """Return the experiment, and the words for its processes, of `[EXPERIMENT] [PROCESS]...`.

    Raises:
        UserError: No experiment with runs matches, or several do.
    """
    if words and any(words[0] in name.spellings for name in runs.experiments()):
        return runs.find(words[0]), words[1:]
    try:
        name = runs.find(None)
    except UserError:
        return runs.find(words[0] if words else None), words[1:]
    if words and not _has_process(name, words[0]):
        with suppress(UserError):
            return runs.find(words[0]), words[1:]
    return name, words


def _has_process(name: StackName, word: str) -> bool:
    """Return whether a word stands for processes of a run of an experiment."""
    paths = {path for run in runs.every(name) for path in (*run.processes, *processes(name, run))}
    with suppress(UserError):
        return bool(stacks.match_processes([word], sorted(paths)))
    return False
