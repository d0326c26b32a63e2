"""An experiment and its groups as the user declared them: what build_plan is given besides the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from symphony.spec import setting, types
from symphony.spec.inputs.code import CodeFiles
from symphony.spec.process import ProcessSpec
from symphony.spec.shared import Declared, MemberSettings, SharedOptions, SharedSettings, Texts


class GroupOptions(SharedOptions, total=False):
    """Keywords of a process group."""


@dataclass(frozen=True)
class ProcessGroupSpec(MemberSettings, Declared):
    """Its processes, and settings that hold for all of them."""

    processes: tuple[ProcessSpec, ...] = setting.setting(types.parts(ProcessSpec))


class ExperimentOptions(SharedOptions, total=False):
    """Keywords of an experiment."""

    inherit: Texts | None
    secrets: Texts | None
    configs: Texts | None
    port_range: Sequence[int] | None


@dataclass(frozen=True)
class ExperimentSpec(SharedSettings, Declared):
    """Processes in no group, process groups, and what holds for all of them.

    inherit names further variables of the caller's environment that the processes get on tmux.
    port_range (first, last) bounds the ports chosen for services on tmux.
    maps_names: names that are not legal are mapped to those that are, as in the original Symphony.
    code_files: what each text of `code=` stood for when it was launched.
    """

    processes: tuple[ProcessSpec, ...] = setting.setting(types.parts(ProcessSpec))
    groups: tuple[ProcessGroupSpec, ...] = setting.setting(types.parts(ProcessGroupSpec))
    inherit: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True)
    secrets: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True)
    configs: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True)
    port_range: tuple[int, int] | None = setting.setting(types.PORT_RANGE, keyword=True, varies=True)
    maps_names: bool = field(default=False, compare=False)
    code_files: Mapping[str, CodeFiles] = field(default_factory=dict[str, CodeFiles], compare=False)

    def members(self) -> Iterator[tuple[ProcessGroupSpec | None, ProcessSpec]]:
        """Every process with its group, in the order of declaration: groups after the free processes."""
        for process in self.processes:
            yield None, process
        for group in self.groups:
            for process in group.processes:
                yield group, process

    def parts(self) -> Iterator[tuple[str, ProcessGroupSpec | ProcessSpec]]:
        """Every group and then every process, with what it is called in a message."""
        yield from ((f"process group {group.name}", group) for group in self.groups)
        yield from ((path_of(group, process), process) for group, process in self.members())

    def owners(self) -> Iterator[tuple[str, ExperimentSpec | ProcessGroupSpec | ProcessSpec]]:
        """Everything that settings are given to, with what it is called in a message."""
        yield "the experiment", self
        yield from self.parts()


def path_of(group: ProcessGroupSpec | None, process: ProcessSpec) -> str:
    """How a process is named within its experiment: `process`, or `group/process`."""
    return f"{group.name}/{process.name}" if group else str(process.name)
