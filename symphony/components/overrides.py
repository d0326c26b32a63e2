"""pod_yml and container_yml: dicts merged last into a manifest, with the original Symphony's methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast


class Override(dict[str, Any]):
    """A part of a manifest; reading a missing key creates a nested part: pod_yml["spec"]["nodeName"]."""

    def __missing__(self, key: str) -> Override:
        return self.setdefault(key, Override())

    @property
    def data(self) -> Self:
        """The dict itself."""
        return self

    def set_attr(self, more: Mapping[str, Any]) -> None:
        """Merge a mapping deeply into this part; its values win."""
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
        """Set an environment variable of the process."""
        self._set_env(name, value)

    def set_envs(self, env: Mapping[str, Any]) -> None:
        """Set environment variables of the process."""
        for name, value in env.items():
            self.set_env(name, value)


def without_empty_parts(override: Any) -> Any:
    """Return an override without the empty parts that reading alone has created."""
    if not isinstance(override, Override):
        return override
    parts = {name: without_empty_parts(part) for name, part in override.items()}
    return {name: part for name, part in parts.items() if part or not isinstance(override[name], Override)}
