"""One process as the user declared it: a frozen value that plan/ judges and backends render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symphony.spec.location import NOWHERE, Location, place_of
from symphony.spec.mounts import Mount
from symphony.spec.pod import PodSettings
from symphony.spec.services import ServiceUse


@dataclass(frozen=True)
class Resources:
    """What a container claims; quantities as Kubernetes writes them, gpu as a count."""

    cpu: str | float | None = None
    memory: str | int | None = None
    gpu: int | None = None

    def given(self) -> bool:
        return self != Resources()


@dataclass(frozen=True)
class ProcessSpec:
    """A program with its settings for both backends.

    command and args are run without a shell; cmds are shell lines.
    said maps a setting to the line that made it; unknown are keywords that are no setting.
    """

    name: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] = ()
    cmds: tuple[str, ...] = ()
    preamble_cmds: tuple[str, ...] = ()
    start_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    image: str | None = None
    image_pull_policy: str | None = None
    binds: tuple[ServiceUse, ...] = ()
    connects: tuple[ServiceUse, ...] = ()
    exposes: tuple[ServiceUse, ...] = ()
    resource_request: Resources = Resources()
    resource_limit: Resources = Resources()
    mounts: tuple[Mount, ...] = ()
    container_yml: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pod: PodSettings = field(default_factory=PodSettings)
    unknown: tuple[str, ...] = ()
    where: Location = field(default=NOWHERE, compare=False)
    said: Mapping[str, Location] = field(default_factory=dict[str, Location], compare=False)

    def at(self, setting: str) -> Location:
        """The line that made a setting (or one part of it: `env PATH`), else that of the declaration."""
        return place_of(setting, self.said, self.where)
