"""The plan of an experiment in one backend: inert, printable values that a backend renders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from symphony.placement.summary import Summary
from symphony.plan.code import CodeSets
from symphony.plan.names import printable
from symphony.plan.problems import Problem, count
from symphony.spec.location import NOWHERE, Location
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSettings
from symphony.spec.serialize import dump_mount


@dataclass(frozen=True)
class PlannedService:
    """A service and where it is: `path` is the process that serves it.

    declared: the program's own name for it, where that is another one.
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


@dataclass(frozen=True, kw_only=True)
class PlannedProcess(ProcessSettings):
    """One process with everything it needs to start; the settings of its group and the experiment are merged
    into its own.

    env is what the user declared in plain text, service_env the SYMPH_* variables that it gets beside those
    of the plan, uses the services it deals with.
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
    """A setting that means nothing in this backend, and who made it."""

    setting: str
    made_by: tuple[str, ...]

    def __str__(self) -> str:
        few = len(self.made_by) <= 2
        who = ", ".join(self.made_by) if few else f"{len(self.made_by)} processes"
        return f"{self.setting} ({who})"


@dataclass(frozen=True)
class PlannedImage:
    """An image that is built and pushed where the registry lacks it; inputs are those of its resource."""

    name: str
    reference: str
    platform: str
    inputs: Mapping[str, Any]
    where: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Plan:
    """Everything that will run: made by build_plan, rendered by a backend.

    name is the experiment's own, launched_as what it is called in its backend. service_env are the SYMPH_*
    variables that every process gets. renamed are the paths of the program's own names for processes and
    groups that are called otherwise here -> theirs; changed_files are the secret and
    config files that the experiment which runs has otherwise, code the files that each digest of code stands
    for, images those that are built for it, remarks what to show with the plan. placement is where the
    processes run and what that costs, where the pools of the cluster are known.
    """

    name: str
    backend: str
    launched_as: str
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

    def process(self, path: str) -> PlannedProcess:
        return next(process for process in self.processes if process.path == path)

    def addresses(self, path: str | None = None) -> dict[str, str]:
        """service -> "host:port" of what one process serves, or all; each by the program's name as well."""
        served = [service for service in self.services if path is None or service.path == path]
        return {name: each.address for each in served for name in (each.name, each.declared) if name}

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a mount says its kind. What all processes share stands there once, code nowhere."""
        plain = asdict(replace(self, processes=(), code={}))
        del plain["code"]
        return plain | {"processes": [_plain(process) for process in self.processes]}

    def to_json(self) -> str:
        """The whole plan as JSON; equal plans give equal text."""
        return json.dumps(whole(self.to_dict()), indent=2, sort_keys=True)

    def __str__(self) -> str:
        rows = [(p.path, printable(_started(p), 100)) for p in self.processes]
        width = max((len(path) for path, _ in rows), default=0)
        lines = [f"{self.launched_as} on {self.backend}: {count(len(rows), 'process', 'processes')}"]
        lines += [f"  {path:{width}}  {what}" for path, what in rows]
        lines += [
            f"  {service.name} at {service.address}, served by {service.path}" for service in self.services
        ]
        return "\n".join(lines)


def whole(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Plan.to_dict() as users read it, with the variables of all services in each process.

    Written so, with a thousand processes and hundreds of services they would be tens of megabytes.
    """
    shared: Mapping[str, str] = plain["service_env"]
    processes = [{**each, "service_env": {**shared, **each["service_env"]}} for each in plain["processes"]]
    kept = {name: value for name, value in plain.items() if name != "service_env"}
    return {**kept, "processes": processes}


def _plain(process: PlannedProcess) -> dict[str, Any]:
    return asdict(replace(process, mounts=(), secret_env={})) | {
        "mounts": [dump_mount(mount) for mount in process.mounts],
        "secret_env": {name: str(secret) for name, secret in process.secret_env.items()},
    }


def _started(process: PlannedProcess) -> str:
    """What a process runs, in short."""
    return "; ".join(process.cmds) or " ".join((*process.command, *process.args)) or str(process.image or "")
