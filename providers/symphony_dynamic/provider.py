"""What every dynamic provider of ours has in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pulumi.dynamic import ConfigureRequest, ResourceProvider

from symphony_dynamic import host_patches


class DynamicProvider(ResourceProvider):
    """CRUD of a resource; secrets are marked by whoever declares it."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        del req
        host_patches.adapt()


def without(props: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The others."""
    return {name: value for name, value in props.items() if name not in names}


def is_same(olds: Mapping[str, Any], news: Mapping[str, Any], identity: Collection[str]) -> bool:
    """There is a resource in state, and the program means that one."""
    return bool(olds) and all(olds.get(name) == news.get(name) for name in identity)
