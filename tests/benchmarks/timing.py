"""Runs two sides in turn and tells the ratio pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

RUNS = 5

Side = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One line of the table; goal is the ratio (or the figure, without another side) that is wanted."""

    what: str
    ours: float
    other: float | None = None
    ratio: float | None = None
    goal: float | None = None
    unit: str = "s"
    against: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        if self.goal is None:
            return None
        return (self.ours if self.ratio is None else self.ratio) <= self.goal


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def paired(what: str, ours: Side, other: Side, *, against: str, goal: float | None, runs: int = RUNS) -> Row:
    """Both sides in turn, A B A B; the medians, and the median of the ratios of the pairs."""
    pairs = [(ours(), other()) for _ in range(runs)]
    return Row(
        what,
        ours=statistics.median(a for a, _ in pairs),
        other=statistics.median(b for _, b in pairs),
        ratio=statistics.median(a / b for a, b in pairs),
        goal=goal,
        against=against,
    )


def alone(what: str, ours: Side, *, goal: float | None = None, runs: int = RUNS, unit: str = "s") -> Row:
    """One side, for a goal that is a figure."""
    return Row(what, ours=statistics.median(ours() for _ in range(runs)), goal=goal, unit=unit)


def table(rows: list[Row]) -> str:
    """The rows as text that lines up."""
    head = ("", "ours", "other", "ratio", "goal", "", "against")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in cells)


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
    goal = "" if row.goal is None else f"{row.goal:g}" + ("x" if row.ratio is not None else f" {row.unit}")
    return (
        row.what,
        f"{row.ours:.3f} {row.unit}",
        "" if row.other is None else f"{row.other:.3f} {row.unit}",
        "" if row.ratio is None else f"{row.ratio:.2f}x",
        goal,
        verdict,
        row.against,
    )
