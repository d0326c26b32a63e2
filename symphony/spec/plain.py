"""Plain values: what YAML, JSON and a manifest can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

DEEPEST = 64


class NotPlainError(Exception):
    """A value is not plain: where in it, of which type, and what is taken there."""

    def __init__(self, part: str, kind: str, takes: str) -> None:
        super().__init__(part, kind, takes)
        self.part = part
        self.kind = kind
        self.takes = takes


def plain(value: Any) -> Any:
    """A copy of a plain value in dicts, lists, texts, numbers, True, False and None of their very own types.

    >>> plain({"a": (1, "x")})
    {'a': [1, 'x']}
    """
    return _plain(value, "", ())


def _plain(value: Any, part: str, within: tuple[int, ...]) -> Any:
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if id(value) in within or len(within) > DEEPEST:
        raise NotPlainError(part, type(value).__name__, "what does not hold itself")
    seen = (*within, id(value))
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return dict(_item(name, each, part, seen) for name, each in items)
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{part}[{i}]", seen) for i, each in enumerate(cast("list[Any]", value))]
    raise NotPlainError(part, type(value).__name__, "text, a number, True, False, None, a list or a mapping")


def _item(name: Any, value: Any, part: str, within: tuple[int, ...]) -> tuple[str, Any]:
    if not isinstance(name, str):
        raise NotPlainError(f"{part}[{name!r:.40}]", type(name).__name__, "text as the names in a mapping")
    return str.__str__(name), _plain(value, f"{part}.{name}", within)
