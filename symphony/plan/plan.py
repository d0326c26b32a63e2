"""The plan of an experiment in one backend: inert values that a backend renders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import msgspec

from symphony.placement.planner import Summary
from symphony.plan.code import VARIABLE, CodeSets, pack
from symphony.plan.names import RENDEZVOUS
from symphony.plan.problems import Problem
from symphony.spec.location import NOWHERE, Location
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSettings
from symphony.spec.serialize import dump_mount
from symphony.supervision import Wait

# Packed code sets up to this length, some 200 files, are inputs of the processes that run them.
_SMALL = 4096


@dataclass(frozen=True)
class PlannedService:
    """A service and its address.

    Attributes:
        path: The process that serves it.
        declared: The name in the program, if the backend needs another name.
    """

    name: str
    host: str
    port: int
    path: str
    exposed: bool
    declared: str = ""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Ends:
    """The conditions under which an experiment ends by itself.

    Attributes:
        primary: The paths of the processes whose end ends it.
        stop_after: The time limit in seconds.
        idle_after: The seconds without output and CPU use after which it ends.
    """

    primary: tuple[str, ...] = ()
    stop_after: float | None = None
    idle_after: float | None = None

    @property
    def are_declared(self) -> bool:
        return self != Ends()


@dataclass(frozen=True, kw_only=True)
class PlannedProcess(ProcessSettings):
    """A process with everything needed to start it; group and experiment settings are merged in.

    Attributes:
        service_env: The variables of this process alone, such as SYMPH_*; the plan has the shared ones.
        where: The line of the program that declares it.
        waits_for: The conditions of other processes that must hold before it starts.
        uses: The services that it binds, connects to or exposes.
    """

    path: str
    name: str
    group: str | None
    service_env: Mapping[str, str]
    binds: tuple[str, ...]
    connects: tuple[str, ...]
    exposes: tuple[str, ...]
    where: str
    command: tuple[str, ...] = ()
    waits_for: tuple[Wait, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.binds, *self.connects, *self.exposes)))


@dataclass(frozen=True)
class PlannedGroup:
    """A process group: the paths of its processes, and the settings of its pod."""

    name: str
    paths: tuple[str, ...]
    pod: PodSettings


@dataclass(frozen=True)
class Unused:
    """A setting that this backend does not use, and its owners: the experiment, groups and processes."""

    setting: str
    made_by: tuple[str, ...]

    def __str__(self) -> str:
        few = len(self.made_by) <= 2
        names = ", ".join(self.made_by) if few else f"{self.made_by[0]} and {len(self.made_by) - 1} more"
        return f"{self.setting} ({names})"


@dataclass(frozen=True)
class PlannedImage:
    """An image to build and push if the registry lacks it; inputs: the inputs of its resource."""

    name: str
    reference: str
    platform: str
    inputs: Mapping[str, Any]
    where: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Plan:
    """Everything that will run; build_plan() creates it and a backend renders it.

    Attributes:
        name: The name of the experiment in the program.
        physical_name: The name of the tmux session, the namespace or the Slurm job.
        service_env: The SYMPH_* variables that every process gets.
        inherit: The variables that every process gets from the user's shell.
        secrets: The secret files that every process gets.
        configs: The config files that every process gets.
        unused: The settings that have no effect in this backend.
        renamed: The path in the program -> the path in the backend, for renamed processes and groups.
        changed_files: `secret key.txt changed` for each file that differs from the running experiment's.
        code: digest -> the files of that code.
        images: The images that are built for the experiment.
        remarks: Warnings, shown with the plan.
        placement: The machines of the processes and their cost, if the pools of the cluster are known.
        ends: The conditions under which the experiment ends by itself.
    """

    name: str
    backend: str
    physical_name: str
    processes: tuple[PlannedProcess, ...]
    groups: tuple[PlannedGroup, ...]
    services: tuple[PlannedService, ...]
    service_env: Mapping[str, str]
    inherit: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    unused: tuple[Unused, ...] = field(default=())
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    changed_files: tuple[str, ...] = ()
    code: CodeSets = field(default_factory=dict[str, Mapping[str, str]])
    images: tuple[PlannedImage, ...] = ()
    remarks: tuple[Problem, ...] = ()
    placement: Summary | None = None
    ends: Ends = Ends()

    @property
    def is_ordered(self) -> bool:
        """Return whether any process waits for another."""
        return any(process.waits_for for process in self.processes)

    @property
    def equal_workers(self) -> list[tuple[str, ...]]:
        """The groups of workers that share a rendezvous, as paths."""
        workers: dict[str, list[str]] = {}
        for process in self.processes:
            if service := process.service_env.get(RENDEZVOUS):
                workers.setdefault(service, []).append(process.path)
        return [*map(tuple, workers.values())]

    def process(self, path: str) -> PlannedProcess:
        return next(process for process in self.processes if process.path == path)

    def addresses(self, path: str | None = None) -> dict[str, str]:
        """Return service -> "host:port" for the services of `path`, or all; also under declared names."""
        served = [service for service in self.services if path is None or service.path == path]
        return {
            name: service.address for service in served for name in (service.name, service.declared) if name
        }

    def experiment_inputs(self) -> dict[str, Any]:
        """Return the plan without its processes and groups, as the inputs of the experiment's component."""
        inputs = _inputs(replace(self, processes=(), groups=(), code={}))
        del inputs["groups"]
        # The key in the state of users' stacks.
        inputs["launched_as"] = inputs.pop("physical_name")
        paths = [process.path for process in self.processes]
        large = {digest: files for digest, files in self.code.items() if digest not in self._small_code}
        return {**inputs, "processes": paths, "code": pack(large)}

    def group_inputs(self) -> dict[str, dict[str, Any]]:
        """Return the component inputs of every process group, by name."""
        return {group.name: _inputs(group) for group in self.groups}

    def process_inputs(self) -> dict[str, dict[str, Any]]:
        """Return the component inputs of every process, by path."""
        inputs: dict[str, dict[str, Any]] = {}
        for process in self.processes:
            files = self._small_code.get(process.service_env.get(VARIABLE, ""))
            own_code = {"code_files": files} if files else {}
            mounts = [_inputs(dump_mount(mount)) for mount in process.mounts]
            secret_env = {name: str(secret) for name, secret in process.secret_env.items()}
            own = {**_inputs(replace(process, mounts=(), secret_env={})), "mounts": mounts}
            inputs[process.path] = {**own, "secret_env": secret_env, **own_code}
        return inputs

    @cached_property
    def _small_code(self) -> dict[str, str]:
        """The packed files of code digests with few files, which become inputs of their processes.

        So changed code changes the inputs of only the processes that run it.
        """
        # Files that belong to an image belong to no process.
        used = {process.service_env.get(VARIABLE) for process in self.processes}
        texts = {digest: pack({digest: files}) for digest, files in self.code.items() if digest in used}
        return {digest: text for digest, text in texts.items() if len(text) <= _SMALL}


def whole(
    experiment: Mapping[str, Any], processes: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a plan as users read it, from the inputs of its components.

    Here every process has the variables of all services. As inputs they would take tens of megabytes for a
    thousand processes and hundreds of services. Pulumi drops null inputs, so they are restored.
    """
    shared: Mapping[str, str] = experiment["service_env"]
    omitted = ("service_env", "code", "folder", "manifests", "processes", "script")
    settings = {name: value for name, value in experiment.items() if name not in omitted}
    names = [field.name for field in fields(PlannedProcess)]
    members = [
        {**{name: process.get(name) for name in names}, "service_env": {**shared, **process["service_env"]}}
        for process in processes
    ]
    return {"placement": None, **settings, "groups": list(groups), "processes": members}


def _inputs(value: Any) -> dict[str, Any]:
    """Return a value as plain inputs; with lists in place of tuples, which Pulumi does not accept."""
    return msgspec.json.decode(msgspec.json.encode(value))
