"""Compares old and new inputs of an object: what changed, and what of it needs a new object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolchain.plugins.values import UNKNOWN

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Change:
    """One place that differs."""

    path: Path
    kind: str  # ADD, DELETE or UPDATE
    new: Any
    replaces: bool = False

    def written(self) -> str:
        """The path as the engine writes it: spec.containers[0].image, metadata.labels["a.b/c"]."""
        text = ""
        for step in self.path:
            if isinstance(step, int):
                text += f"[{step}]"
            elif any(sign in step for sign in '."[]'):
                text += '["{}"]'.format(step.replace('"', '\\"'))
            else:
                text += f".{step}" if text else step
        return text


def changes(old: Any, new: Any, immutable: tuple[tuple[str, ...], ...]) -> list[Change]:
    """Every difference, those that force a replacement marked."""
    result = _walk((), old, new)
    return [Change(each.path, each.kind, each.new, _forces(each, immutable)) for each in result]


def _walk(path: Path, old: Any, new: Any) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            yield from _pair((*path, key), old, new, key in old, key in new, key)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            yield from _pair((*path, place), old, new, place < len(old), place < len(new), place)
    elif new is UNKNOWN or old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Change(path, "UPDATE", new)


def _pair(path: Path, old: Any, new: Any, in_old: bool, in_new: bool, key: str | int) -> Iterator[Change]:
    if in_old and in_new:
        yield from _walk(path, old[key], new[key])
    elif in_new:
        yield Change(path, "ADD", new[key])
    else:
        yield Change(path, "DELETE", None)


def _forces(change: Change, immutable: tuple[tuple[str, ...], ...]) -> bool:
    steps = tuple("*" if isinstance(step, int) else step for step in change.path)
    for field in immutable:
        if steps[: len(field)] == field:
            return True
        if field[: len(steps)] == steps and _holds(change.new, field[len(steps) :]):
            return True
    return False


def _holds(value: Any, rest: tuple[str, ...]) -> bool:
    """Whether a new value has something at this path of an immutable field."""
    if not rest:
        return True
    if isinstance(value, list):
        return rest[0] == "*" and any(_holds(each, rest[1:]) for each in value)
    return isinstance(value, dict) and rest[0] in value and _holds(value[rest[0]], rest[1:])
