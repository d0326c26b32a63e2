"""Reads values that processes report in lines such as `::result {"loss": 0.31}`, and tabulates them."""

import importlib
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from symphony.engine.state.file_store import StackName
from symphony.errors import UserError
from symphony.operations import run_logs, runs
from symphony.plan.names import listed, nearest, quoted
from symphony.reporting import PREFIX
from symphony_tmux import logs as reader

_PREFIX = PREFIX.encode()


@dataclass(frozen=True)
class Report:
    """A report: its values, its time and the process that printed it."""

    time: float
    path: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Row:
    """The results of a "run", or of a "trial" of a sweep, with its number as label."""

    label: str
    parameters: dict[str, Any]
    ended: str
    reports: list[Report] = field(default_factory=list[Report])
    kind: str = "run"

    def last(self) -> dict[str, Any]:
        """Return the last value of every name."""
        return {name: value for report in self.reports for name, value in report.values.items()}

    def best(self, name: str, choose: Callable[[float, float], bool]) -> dict[str, Any]:
        """Return the values of the best report, and the last value of every other name."""
        best: Report | None = None
        for report in self.reports:
            if (number := _number(report.values.get(name))) is not None and (
                best is None or choose(number, cast("float", _number(best.values[name])))
            ):
                best = report
        return {**self.last(), **(best.values if best else {})}


def row(name: StackName, run: runs.Run, label: str | None = None) -> Row:
    """Return the results of a run."""
    prefix = f"{run.project}:"
    own = {key.removeprefix(prefix): value for key, value in run.settings.items() if key.startswith(prefix)}
    reports = sorted(_reports(name, run), key=lambda report: report.time)
    return Row(label or str(run.number), run.parameters or own, run.ending, reports)


def _reports(name: StackName, run: runs.Run) -> Iterator[Report]:
    spans = run_logs.spans(name, run)
    for path, log in run_logs.processes(name, run).items():
        begin, end = spans[path]
        for time, line in _lines(log, begin):
            if time >= end:
                break
            values = _values(line)
            if values and time >= begin:
                yield Report(time, path, values)


def _lines(log: Path, since: float) -> Iterator[tuple[float, bytes]]:
    rest = b""
    for part in reader.read(log, since=since):
        complete, _, rest = (rest + part.data).rpartition(b"\n")
        if _PREFIX in complete:
            for line in complete.split(b"\n"):
                if line.startswith(_PREFIX):
                    yield part.time or since, line


def _values(line: bytes) -> dict[str, Any]:
    """Return the values in a line; empty if it is truncated or not an object."""
    try:
        values: Any = json.loads(line[len(_PREFIX) :])
    except ValueError:
        return {}
    if not isinstance(values, dict):
        return {}
    pairs = cast("dict[str, Any]", values)
    return {name: value for name, value in pairs.items() if isinstance(value, (bool, int, float, str))}


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value):
        return float(value)
    return None


def names_of(rows: Iterable[Row]) -> list[str]:
    """Return the names of all reported values, in the order of their first report."""
    return list(dict.fromkeys(name for row in rows for report in row.reports for name in report.values))


def table(
    rows: Sequence[Row], *, least: str | None = None, most: str | None = None, all_reports: bool = False
) -> list[dict[str, Any]]:
    """Return a mapping for each row: parameters, values, end.

    Args:
        rows: The results.
        least: Show the report with the least value of this name, the best row first.
        most: Show the report with the greatest value of this name, the best row first.
        all_reports: Return a mapping for each report.

    Raises:
        UserError: No process reports a value with that name.
    """
    ranked = least or most
    if ranked is not None:
        require(rows, ranked)
    names = list(dict.fromkeys(name for row in rows for name in row.parameters))
    mappings: list[dict[str, Any]] = []
    for row in rows:
        head = {row.kind: row.label, **{name: row.parameters.get(name) for name in names}}
        if all_reports:
            mappings += [
                {**head, "process": report.path, **_renamed(report.values, head)} for report in row.reports
            ]
            continue
        values = row.last()
        if ranked is not None:
            values = row.best(ranked, operator.lt if least else operator.gt)
        mappings.append({**head, **_renamed(values, head), "ended": row.ended})
    if ranked is not None and not all_reports:
        sign = 1 if least else -1

        def rank(mapping: dict[str, Any]) -> float:
            number = _number(mapping.get(f"reported {ranked}", mapping.get(ranked)))
            return math.inf if number is None else sign * number

        mappings.sort(key=rank)
    return mappings


def _renamed(values: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """Return reported values; one with the name of a parameter is called "reported NAME"."""
    return {f"reported {name}" if name in head else name: value for name, value in values.items()}


def require(rows: Sequence[Row], name: str) -> None:
    """Raise UserError unless a process reports a value with this name."""
    reported = names_of(rows)
    if name not in reported:
        near = nearest(name, reported)
        remedy = f"Did you mean {near}?" if near else f"Reported: {listed(reported) or 'nothing'}"
        raise UserError(f"no process reports a value called {quoted(name)}", remedy=remedy)


def _curve_labels(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that differ, with the numbers of the runs if these have equal parameters."""
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    varied = [name for name in names if len({str(row.parameters.get(name)) for row in rows}) > 1]
    settings = [
        [f"{name} {row.parameters[name]}" for name in varied if name in row.parameters] for row in rows
    ]
    labels = [", ".join(words) for words in settings]
    if all(labels) and len({*labels}) == len(rows):
        return labels
    return [", ".join([f"{row.kind} {row.label}", *words]) for row, words in zip(rows, settings, strict=True)]


def plot(rows: Sequence[Row], name: str, file: Path) -> None:
    """Draw the curve of a value for each run into a file, PNG or SVG by its name.

    Raises:
        UserError: No process reports that name, or matplotlib is missing.
    """
    require(rows, name)
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UserError(
            "the package matplotlib, which draws the curves, is not installed",
            remedy="Run `pip install matplotlib`",
        ) from None
    figure = figures.Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    points_of = [[r.values for r in row.reports if _number(r.values.get(name)) is not None] for row in rows]
    curves = [(row, points) for row, points in zip(rows, points_of, strict=True) if points]
    labels = _curve_labels([row for row, _ in curves])
    has_steps = any("step" in report.values for row in rows for report in row.reports)
    for (_, points), label in zip(curves, labels, strict=True):
        steps = [values.get("step", number) for number, values in enumerate(points)]
        marker = "." if len(points) < 3 else ""
        axes.plot(steps, [values[name] for values in points], label=label, marker=marker)
    axes.set(xlabel="step" if has_steps else "report", ylabel=name)
    axes.legend(fontsize="small", frameon=False)
    # Equal curves give equal files.
    with matplotlib.rc_context({"svg.hashsalt": "symphony"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
