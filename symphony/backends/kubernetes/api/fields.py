"""Reads nested fields of the API server's plain values, any of which may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Values = Mapping[str, Any]
# dict first: answers are dicts, and the check for Mapping is slower.
_MAPPINGS = (dict, Mapping)


def mapping(value: Any, *names: str) -> Values:
    """Return the mapping at a path of names; empty if there is none."""
    result = _at(value, names)
    return cast("Values", result) if isinstance(result, _MAPPINGS) else {}


def listing(value: Any, *names: str) -> list[Values]:
    """Return the list of mappings at a path of names; empty if there is none."""
    result = _at(value, names)
    every = cast("list[Any]", result) if isinstance(result, list) else []
    return [cast("Values", each) for each in every if isinstance(each, _MAPPINGS)]


def texts(value: Any, *names: str) -> list[str]:
    """Return the list of strings at a path of names; empty if there is none."""
    result = _at(value, names)
    return [str(each) for each in cast("list[Any]", result)] if isinstance(result, list) else []


def text(value: Any, *names: str) -> str:
    """Return the string at a path of names; empty if there is none."""
    result = _at(value, names)
    return "" if result is None else str(result)


def _at(value: Any, names: tuple[str, ...]) -> Any:
    result = value
    for name in names:
        if not isinstance(result, _MAPPINGS):
            return None
        result = cast("Values", result).get(name)
    return result
