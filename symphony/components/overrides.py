"""A part of a manifest that is merged last: a dict, with the calls that the original Symphony had on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast


class Override(dict[str, Any]):
    """A part of a manifest; pod_yml["spec"]["nodeName"] = "m1" makes what is missing on the way."""

    def __missing__(self, key: str) -> Override:
        return self.setdefault(key, Override())

    @property
    def data(self) -> Self:
        """The dict itself."""
        return self

    def set_attr(self, more: Mapping[str, Any]) -> None:
        """Merge a mapping into it, deeply; a later value wins."""
        for name, value in more.items():
            if isinstance(value, Mapping):
                part = Override(self[name]) if isinstance(self.get(name), dict) else Override()
                part.set_attr(cast("Mapping[str, Any]", value))
                self[name] = part
            else:
                self[name] = value


class ContainerOverride(Override):
    """A part of a container's manifest."""

    def __init__(self, set_env: Callable[[str, Any], None]) -> None:
        super().__init__()
        self._set_env = set_env

    def set_env(self, name: str, value: Any) -> None:
        """Set one environment variable of the process."""
        self._set_env(name, value)

    def set_envs(self, env: Mapping[str, Any]) -> None:
        """Set environment variables of the process."""
        for name, value in env.items():
            self.set_env(name, value)


def written(override: Any) -> Any:
    """Return an override without the mappings that were only read: pod_yml["spec"] makes an empty one."""
    if not isinstance(override, Override):
        return override
    kept = {name: written(part) for name, part in override.items()}
    return {name: part for name, part in kept.items() if part or not isinstance(override[name], Override)}
