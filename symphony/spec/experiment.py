"""An experiment as the user declared it: the whole of what build_plan is given besides the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import NOWHERE, Location, place_of
from symphony.spec.process import ProcessSpec


@dataclass(frozen=True)
class ExperimentSpec:
    """Processes in no group, process groups, and what holds for all of them.

    inherit names further variables of the caller's environment that the processes get on tmux.
    port_range (first, last) bounds the ports chosen for services on tmux.
    """

    name: str
    processes: tuple[ProcessSpec, ...] = ()
    groups: tuple[ProcessGroupSpec, ...] = ()
    preamble_cmds: tuple[str, ...] = ()
    start_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    image: str | None = None
    inherit: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    port_range: tuple[int, int] | None = None
    unknown: tuple[str, ...] = ()
    where: Location = field(default=NOWHERE, compare=False)
    said: Mapping[str, Location] = field(default_factory=dict[str, Location], compare=False)

    def at(self, setting: str) -> Location:
        """The line that made a setting (or one part of it: `env PATH`), else that of the declaration."""
        return place_of(setting, self.said, self.where)

    def members(self) -> Iterator[tuple[ProcessGroupSpec | None, ProcessSpec]]:
        """Every process with its group, in the order of declaration: groups after the free processes."""
        for process in self.processes:
            yield None, process
        for group in self.groups:
            for process in group.processes:
                yield group, process


def path_of(group: ProcessGroupSpec | None, process: ProcessSpec) -> str:
    """How a process is named within its experiment: `process`, or `group/process`."""
    return f"{group.name}/{process.name}" if group else str(process.name)
