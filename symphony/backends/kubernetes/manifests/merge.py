"""Merges what a user wrote into pod_yml and container_yml over a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from symphony.backends.kubernetes.api.fields import mapping

# One volume may be mounted at several places, so that its name does not tell two mounts apart.
_KEYS = ("mountPath", "name")


def merged(rendered: Any, given: Any) -> Any:
    """Mappings merge key by key, lists of named things by name, None takes a key away; all else replaces.

    >>> merged({"a": [{"name": "x", "image": "i"}], "b": 1}, {"a": [{"name": "x", "tty": True}], "b": None})
    {'a': [{'name': 'x', 'image': 'i', 'tty': True}]}
    """
    if isinstance(rendered, Mapping) and isinstance(given, Mapping):
        return _mappings(cast("Mapping[str, Any]", rendered), cast("Mapping[str, Any]", given))
    for key in _KEYS:
        if _is_named(rendered, key) and _is_named(given, key):
            return _named(cast("list[dict[str, Any]]", rendered), cast("list[dict[str, Any]]", given), key)
    return given


def _mappings(rendered: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: merged(rendered[key], value) if key in rendered else value for key, value in given.items()}
    return {key: value for key, value in {**rendered, **both}.items() if value is not None}


def _named(rendered: list[dict[str, Any]], given: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    by_name = {each[key]: each for each in rendered}
    for each in given:
        name = each[key]
        by_name[name] = merged(by_name[name], each) if name in by_name else each
    return list(by_name.values())


def _is_named(value: Any, key: str) -> bool:
    if not isinstance(value, list) or not value:
        return False
    every = cast("list[Any]", value)
    return all(isinstance(each, Mapping) and isinstance(mapping(each).get(key), str) for each in every)
