"""Reads nested fields of the API server's plain values, any of which may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Values = Mapping[str, Any]
# dict first: answers are dicts, and the check for Mapping is slower.
_MAPPINGS = (dict, Mapping)


def mapping(value: Any, *names: str) -> Values:
    """Return the mapping at a path of names; empty if there is none."""
    field = _at(value, names)
    return cast("Values", field) if isinstance(field, _MAPPINGS) else {}


def listing(value: Any, *names: str) -> list[Values]:
    """Return the list of mappings at a path of names; empty if there is none."""
    field = _at(value, names)
    entries = cast("list[Any]", field) if isinstance(field, list) else []
    return [cast("Values", entry) for entry in entries if isinstance(entry, _MAPPINGS)]


def texts(value: Any, *names: str) -> list[str]:
    """Return the list of strings at a path of names; empty if there is none."""
    field = _at(value, names)
    return [str(entry) for entry in cast("list[Any]", field)] if isinstance(field, list) else []


def text(value: Any, *names: str) -> str:
    """Return the string at a path of names; empty if there is none."""
    field = _at(value, names)
    return "" if field is None else str(field)


def _at(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if not isinstance(value, _MAPPINGS):
            return None
        value = cast("Values", value).get(name)
    return value
