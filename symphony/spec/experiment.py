"""The experiment and its groups as the user declared them: the input of `build_plan`, with the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from symphony.spec.order import Names, names
from symphony.spec.process import ProcessSpec
from symphony.spec.setting import PORT, all_of, convert, duration, instance_of, setting, texts, wrong_value
from symphony.spec.shared import (
    CodeFiles,
    Declared,
    Duration,
    MemberOptions,
    MemberSettings,
    SharedOptions,
    SharedSettings,
    Texts,
)


class GroupOptions(MemberOptions, total=False):
    """Keywords of a process group."""


@dataclass(frozen=True)
class ProcessGroupSpec(MemberSettings, Declared):
    """A group's processes, and the settings they share."""

    processes: tuple[ProcessSpec, ...] = setting(all_of(instance_of(ProcessSpec)), (), part=ProcessSpec)


class ExperimentOptions(SharedOptions, total=False):
    """Keywords of an experiment."""

    inherit: Texts | None
    secrets: Texts | None
    configs: Texts | None
    port_range: Sequence[int] | None
    primary: Names | None
    stop_after: Duration | None
    idle_after: Duration | None


def _port_range(value: Any, setting: str) -> tuple[int, int] | None:
    """Return the first and the last port of a pair or a range."""
    if value is None:
        return None
    ends = [min(value), max(value)] if isinstance(value, range) and value else value
    first, last = convert(ends, tuple[PORT, PORT], setting)
    if first > last:
        raise wrong_value(f"{setting} ends before its first port, {first}", "Write it as (FIRST, LAST)")
    return first, last


@dataclass(frozen=True)
class ExperimentSpec(SharedSettings, Declared):
    """An experiment's ungrouped processes, process groups, and the settings they share.

    inherit names further variables of the caller's environment that the processes get, except on Kubernetes.
    port_range (first, last) bounds the ports chosen for services, except on Kubernetes.
    primary names the processes with which the experiment ends; stop_after and idle_after, in seconds, end it.
    accepts_classic_names: invalid names are mapped to valid ones, as in the original Symphony.
    code_files: the files that each entry of `code=` matches at the launch.
    varies=True marks a setting that only some backends support.
    """

    processes: tuple[ProcessSpec, ...] = setting(all_of(instance_of(ProcessSpec)), (), part=ProcessSpec)
    groups: tuple[ProcessGroupSpec, ...] = setting(
        all_of(instance_of(ProcessGroupSpec)), (), part=ProcessGroupSpec
    )
    inherit: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    secrets: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    configs: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    port_range: tuple[int, int] | None = setting(_port_range, keyword=True, varies=True)
    primary: tuple[str, ...] = setting(names, (), keyword=True, varies=True)
    stop_after: float | None = setting(duration, keyword=True, varies=True)
    idle_after: float | None = setting(duration, keyword=True, varies=True)
    accepts_classic_names: bool = field(default=False, compare=False)
    code_files: Mapping[str, CodeFiles] = field(default_factory=dict[str, CodeFiles], compare=False)

    def members(self) -> Iterator[tuple[ProcessGroupSpec | None, ProcessSpec]]:
        """Yield every process with its group, in the order of declaration; grouped processes come last."""
        for process in self.processes:
            yield None, process
        for group in self.groups:
            for process in group.processes:
                yield group, process

    def parts(self) -> Iterator[tuple[str, ProcessGroupSpec | ProcessSpec]]:
        """Yield every group and then every process, with its name for a message."""
        yield from ((f"process group {group.name}", group) for group in self.groups)
        yield from ((path_of(group, process), process) for group, process in self.members())

    def owners(self) -> Iterator[tuple[str, ExperimentSpec | ProcessGroupSpec | ProcessSpec]]:
        """Yield everything that has settings, with its name for a message."""
        yield "the experiment", self
        yield from self.parts()

    def with_owners(self, change: Callable[[Any], Any]) -> ExperimentSpec:
        """Return a copy with `change` applied to the experiment and to every group and process."""
        groups = [
            replace(change(group), processes=tuple(map(change, group.processes))) for group in self.groups
        ]
        return replace(change(self), processes=tuple(map(change, self.processes)), groups=tuple(groups))


def path_of(group: ProcessGroupSpec | None, process: ProcessSpec) -> str:
    """Return the name of a process within its experiment: `process`, or `group/process`."""
    return f"{group.name}/{process.name}" if group else process.name
