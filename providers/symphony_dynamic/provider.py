"""The base of symphony's dynamic providers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pulumi.dynamic import ResourceProvider


class DynamicProvider(ResourceProvider):
    """CRUD of a resource; its declaration marks the secrets."""

    serialize_as_secret_always = False


def without(props: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the properties but those of the names."""
    return {name: value for name, value in props.items() if name not in names}


def is_same(olds: Mapping[str, Any], news: Mapping[str, Any], identity: Collection[str]) -> bool:
    """Return whether the state has a resource, and the program means that one."""
    return bool(olds) and all(olds.get(name) == news.get(name) for name in identity)
