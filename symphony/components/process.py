"""Process: one program of an experiment, declared by the user's program, registered at launch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, copied, declare
from symphony.spec.location import caller
from symphony.spec.process import ProcessOptions, ProcessSpec, Resources
from symphony.spec.services import read_services
from symphony.spec.shared import Texts

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Process(pulumi.ComponentResource, MemberBuilder[ProcessSpec]):
    """One program: a window in tmux, a container on Kubernetes.

    Inert until its experiment is launched; afterwards
    services  the services it serves -> "host:port",
    session   the tmux session or Kubernetes namespace it runs in.
    container_yml is a dict; what is put there is merged last into the container's manifest.
    """

    services: dict[str, str]
    session: str

    def __init__(
        self,
        name: str,
        cmds: Texts | None = None,
        **options: Unpack[ProcessOptions],
    ) -> None:
        self.pod_yml = {}
        self.container_yml: dict[str, Any] = {}
        self._spec = declare(ProcessSpec, name, {"cmds": cmds, **options})

    @classmethod
    def from_spec(cls, spec: ProcessSpec) -> Process:
        """A process that declares what a loaded spec declares."""
        process = cls(spec.name)
        process.pod_yml = copied(spec.pod.pod_yml)
        process.container_yml = copied(spec.container_yml)
        process._spec = spec
        return process

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self._spec.name

    @property
    def spec(self) -> ProcessSpec:
        """What was declared, as a frozen value."""
        return dataclasses.replace(super().spec, container_yml=copied(self.container_yml))

    def binds(self, *services: Any) -> None:
        """Serve these services to the other processes: names, lists of names, or {name: port}."""
        self._set("binds", binds=(*self._spec.binds, *read_services(services, caller())))

    def connects(self, *services: Any) -> None:
        """Use these services, which other processes serve."""
        self._set("connects", connects=(*self._spec.connects, *read_services(services, caller())))

    def exposes(self, *services: Any) -> None:
        """Serve these services to the backend outside: names, lists of names, or {name: port}."""
        self._set("exposes", exposes=(*self._spec.exposes, *read_services(services, caller())))

    bind = binds
    connect = connects
    expose = exposes

    def resource_request(self, cpu: Any = None, memory: Any = None, *, mem: Any = None) -> None:
        """What the container needs at least; a later value wins."""
        self._claim("resource_request", cpu=cpu, memory=mem if memory is None else memory)

    def resource_limit(
        self, cpu: Any = None, memory: Any = None, gpu: Any = None, *, mem: Any = None
    ) -> None:
        """What the container may use at most; a later value wins."""
        self._claim("resource_limit", cpu=cpu, memory=mem if memory is None else memory, gpu=gpu)

    def _claim(self, setting: str, **amounts: Any) -> None:
        given = {kind: amount for kind, amount in amounts.items() if amount is not None}
        before: Resources = getattr(self._spec, setting)
        self._set(setting, given, **{setting: dataclasses.replace(before, **given)})

    def register(self, path: str, plan: Plan, parent: pulumi.Resource) -> None:
        """Become a component of the running Pulumi program; the experiment's launch calls it."""
        options = pulumi.ResourceOptions(parent=parent)
        pulumi.ComponentResource.__init__(self, "symphony:index:Process", path, None, options)
        self.services = plan.addresses(path)
        self.session = plan.launched_as
        declared = plan.process(path).where
        self.register_outputs({"services": self.services, "session": self.session, "declared": declared})
