"""Merges what a user wrote into pod_yml and container_yml over a manifest; pods and containers ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def merged(rendered: Any, said: Any) -> Any:
    """Mappings merge key by key, lists of named things by name, None takes a key away; all else replaces.

    >>> merged({"a": [{"name": "x", "image": "i"}], "b": 1}, {"a": [{"name": "x", "tty": True}], "b": None})
    {'a': [{'name': 'x', 'image': 'i', 'tty': True}]}
    """
    if isinstance(rendered, Mapping) and isinstance(said, Mapping):
        return _mappings(cast("Mapping[str, Any]", rendered), cast("Mapping[str, Any]", said))
    if _is_named(rendered) and _is_named(said):
        return _named(cast("list[dict[str, Any]]", rendered), cast("list[dict[str, Any]]", said))
    return said


def _mappings(rendered: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: merged(rendered[key], value) if key in rendered else value for key, value in said.items()}
    return {key: value for key, value in {**rendered, **both}.items() if value is not None}


def _named(rendered: list[dict[str, Any]], said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {each["name"]: each for each in rendered}
    for each in said:
        name = each["name"]
        by_name[name] = merged(by_name[name], each) if name in by_name else each
    return list(by_name.values())


def _is_named(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(each, Mapping) and "name" in each for each in cast("list[Any]", value))
