"""A process group as the user declared it: processes that share a fate and a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symphony.spec.location import NOWHERE, Location, place_of
from symphony.spec.mounts import Mount
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSpec


@dataclass(frozen=True)
class ProcessGroupSpec:
    """Its processes, and settings that hold for all of them."""

    name: str
    processes: tuple[ProcessSpec, ...] = ()
    preamble_cmds: tuple[str, ...] = ()
    start_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    image: str | None = None
    image_pull_policy: str | None = None
    mounts: tuple[Mount, ...] = ()
    pod: PodSettings = field(default_factory=PodSettings)
    unknown: tuple[str, ...] = ()
    where: Location = field(default=NOWHERE, compare=False)
    said: Mapping[str, Location] = field(default_factory=dict[str, Location], compare=False)

    def at(self, setting: str) -> Location:
        """The line that made a setting (or one part of it: `env PATH`), else that of the declaration."""
        return place_of(setting, self.said, self.where)
