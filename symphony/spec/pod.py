"""Settings of a pod: they belong to a process in no group, or else to its group; plan enforces which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Toleration:
    """A taint the pod may be placed on; Kubernetes' own four fields."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


@dataclass(frozen=True)
class PodSettings:
    """Where a pod may run, what happens when it ends, and its labels."""

    node_selector: Mapping[str, str] = field(default_factory=dict[str, str])
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pod_yml: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def given(self) -> tuple[str, ...]:
        """The names of the settings that were made."""
        return tuple(name for name, value in vars(self).items() if value)
