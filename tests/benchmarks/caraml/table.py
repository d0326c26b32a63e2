"""One row of the table: its sides, its goals, and how it is printed; the rows are made of it."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.benchmarks.caraml.sides import interleaved, ratio

HEAD = "| row | what | ours | raw pyzmq | caraml 0.10.0 | goals |\n|---|---|---|---|---|---|"
_COLUMNS = ("ours", "raw", "original")
Figures = Mapping[str, Sequence[float]]


class Goal(NamedTuple):
    """What a figure must reach, and what it should."""

    label: str
    gate: float
    stretch: float
    of: Callable[[Figures], float]
    smaller_is_better: bool = False

    def mark(self, value: float) -> str:
        """The best that was reached."""
        sign = -1 if self.smaller_is_better else 1
        if value * sign >= self.stretch * sign:
            return "stretch"
        return "gate" if value * sign >= self.gate * sign else "MISS"


class Row(NamedTuple):
    """The variants are measured in turn; `unit` is "rate" or "us"."""

    name: str
    what: str
    variants: dict[str, Callable[[], float]]
    goals: tuple[Goal, ...]
    unit: str = "rate"


def as_fast(label: str, gate: float, stretch: float, base: str, name: str = "ours") -> Goal:
    """How many times as fast as the base."""
    return Goal(label, gate, stretch, lambda figures: ratio(figures, base, name))


def times_the_time(label: str, gate: float, stretch: float, base: str = "raw") -> Goal:
    """How many times as long as the base."""
    return Goal(label, gate, stretch, lambda figures: 1 / ratio(figures, base), smaller_is_better=True)


def a_figure(label: str, value: float, gate: float, stretch: float) -> Goal:
    """A figure measured otherwise, the smaller the better."""
    return Goal(label, gate, stretch, lambda _: value, smaller_is_better=True)


def measured(row: Row) -> tuple[str, list[str]]:
    """The line of the table, and the mark of each goal."""
    figures = interleaved(row.variants)
    medians = {name: _shown(statistics.median(values), row.unit) for name, values in figures.items()}
    values = [goal.of(figures) for goal in row.goals]
    marks = [goal.mark(value) for goal, value in zip(row.goals, values, strict=True)]
    texts = "; ".join(
        f"{goal.label} {value:.2f} (gate {goal.gate:g}, stretch {goal.stretch:g})"
        for goal, value in zip(row.goals, values, strict=True)
    )
    others = " ".join(f"{name} {text}" for name, text in medians.items() if name not in _COLUMNS)
    what = row.what + (f" [{others}]" if others else "")
    cells = [medians.get(name, "-") for name in _COLUMNS]
    return "| " + " | ".join([row.name, what, *cells, f"{texts} -> {', '.join(marks)}"]) + " |", marks


def _shown(seconds: float, unit: str) -> str:
    return f"{seconds * 1e6:,.1f} us" if unit == "us" else f"{1 / seconds:,.0f}/s"
