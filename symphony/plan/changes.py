"""What an `up` would do to each process: recorded inputs against planned ones, as rows for the CLI."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from symphony.plan.names import printable

Kind = Literal["start", "restart", "stop", "keep"]
Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One process and what happens to it, and why."""

    path: str
    kind: Kind
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def changes(
    recorded: Mapping[str, Inputs],
    planned: Mapping[str, Inputs],
    differing: Callable[[Inputs, Inputs], Sequence[str]],
    broken: Mapping[str, str],
) -> tuple[Change, ...]:
    """One row a process: planned ones in the order of the plan, then those no longer declared.

    differing: the settings that make a running process restart (the backend's rule).
    broken:    path -> why a recorded process does not run as it should.
    """
    rows = [_change(path, recorded.get(path), inputs, differing, broken) for path, inputs in planned.items()]
    rows += [Change(path, "stop", "no longer declared") for path in recorded if path not in planned]
    return tuple(rows)


def _change(
    path: str,
    old: Inputs | None,
    new: Inputs,
    differing: Callable[[Inputs, Inputs], Sequence[str]],
    broken: Mapping[str, str],
) -> Change:
    if old is None:
        return Change(path, "start", "new")
    reasons = [_why(setting, old, new) for setting in differing(old, new)]
    if path in broken:
        reasons.insert(0, broken[path])
    return Change(path, "restart", "; ".join(reasons)) if reasons else Change(path, "keep")


def _why(setting: str, old: Inputs, new: Inputs) -> str:
    before, after = old.get(setting), new.get(setting)
    if isinstance(before or after, Mapping):
        names = _differing_names(cast("Inputs", before or {}), cast("Inputs", after or {}))
        return f"{setting}: {', '.join(map(_text, names))}"
    if isinstance(before or [], list) and isinstance(after or [], list):
        return f"{setting}: {_lists(cast('list[Any]', before or []), cast('list[Any]', after or []))}"
    return f"{setting}: {_text(before)} -> {_text(after)}"


def _differing_names(before: Inputs, after: Inputs) -> list[str]:
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _lists(before: list[Any], after: list[Any]) -> str:
    """The part that differs, with one word of context before it: `--lr 1e-3 -> 3e-4`."""
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if start is None:
        start = min(len(before), len(after))
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    context = f"{_text(before[start - 1])} " if start else ""
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    return f"{context}{_text(' '.join(map(str, old)))} -> {_text(' '.join(map(str, new)))}"


def _text(value: Any) -> str:
    return "nothing" if value in (None, "") else printable(str(value), 60)
