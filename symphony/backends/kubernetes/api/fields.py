"""Walks into plain values of the API server, where anything may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Values = Mapping[str, Any]
# The check for a dict, as the server's answers are, is faster than that for a Mapping.
_MAPPINGS = (dict, Mapping)


def mapping(value: Any, *names: str) -> Values:
    """Return the mapping at that place, an empty one where there is none."""
    result = _at(value, names)
    return cast("Values", result) if isinstance(result, _MAPPINGS) else {}


def listing(value: Any, *names: str) -> list[Values]:
    """Return the list of mappings at that place, an empty one where there is none."""
    result = _at(value, names)
    every = cast("list[Any]", result) if isinstance(result, list) else []
    return [cast("Values", each) for each in every if isinstance(each, _MAPPINGS)]


def texts(value: Any, *names: str) -> list[str]:
    """Return the list of texts at that place, an empty one where there is none."""
    result = _at(value, names)
    return [str(each) for each in cast("list[Any]", result)] if isinstance(result, list) else []


def text(value: Any, *names: str) -> str:
    """Return the text at that place, an empty one where there is none."""
    result = _at(value, names)
    return "" if result is None else str(result)


def _at(value: Any, names: tuple[str, ...]) -> Any:
    result = value
    for name in names:
        if not isinstance(result, _MAPPINGS):
            return None
        result = cast("Values", result).get(name)
    return result
