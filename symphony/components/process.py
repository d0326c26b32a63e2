"""Process: one program of an experiment, declared by the user's program, registered at launch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, copied, declare
from symphony.components.overrides import ContainerOverride, Override
from symphony.spec.location import caller
from symphony.spec.process import ProcessOptions, ProcessSpec, Quantity, Resources
from symphony.spec.services import Services, read_services
from symphony.spec.shared import Texts
from symphony.spec.types import read_texts, read_words

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Process(pulumi.ComponentResource, MemberBuilder[ProcessSpec]):
    """One program: a window in tmux, a container on Kubernetes. It starts when its experiment is launched.

    worker = experiment.new_process("worker", command="python", args=["worker.py", "--lr", 0.1])
    worker.connects("replay")
    worker.resource_request(cpu=2, memory="8Gi")

    name:          letters, digits, "-" and "_"; no two alike in an experiment or group.
    command, args: the program and its arguments, run without a shell; one text is split at its blanks.
    cmds:          lines for a shell, in place of both.
    preamble_cmds: lines for a shell before it, such as "source venv/bin/activate".
    start_dir:     the folder that it starts in: by default that of the program, on Kubernetes the image's.
    code:          files, folders and globs of the project: at a change of them, `up` starts it again.
    env:           {variable: value}; a number or path becomes text.
    secret_env:    {variable: file with its value}, or a secret Output; kept out of states, plans and logs.
    image:         the container image (Kubernetes); container_image is the same.
    container_yml: a dict that is merged last into the container's manifest (Kubernetes); pod_yml the same of
                   its pod.

    Nothing is checked here: what is wrong is reported at launch, with its line.
    """

    container_yml: ContainerOverride

    def __init__(
        self,
        name: str,
        cmds: Texts | None = None,
        **options: Unpack[ProcessOptions],
    ) -> None:
        """Declare a process; Process says what it takes."""
        self.pod_yml = Override()
        self.container_yml = ContainerOverride(self.set_env)
        self._path = name
        self._plan = None
        self._spec = declare(ProcessSpec, name, {"cmds": cmds, **options})

    @classmethod
    def from_spec(cls, spec: ProcessSpec) -> Process:
        """A process that declares what a loaded spec declares."""
        process = cls(spec.name)
        process.pod_yml.update(copied(spec.pod.pod_yml))
        process.container_yml.update(copied(spec.container_yml))
        process._spec = spec
        return process

    @property
    def spec(self) -> ProcessSpec:
        """What was declared, as a frozen value."""
        return dataclasses.replace(super().spec, container_yml=copied(self.container_yml))

    @property
    def services(self) -> dict[str, str]:
        """The services that it serves -> "host:port". UserError: it is not launched yet."""
        return self._launched.addresses(self._path)

    def set_command(self, command: Texts) -> None:
        """Set the command, which runs without a shell: set_command(["python", "agent.py"])."""
        self._set("command", command=read_words(command))

    def set_args(self, args: Texts) -> None:
        """Set the args of the command: set_args(["--lr", 0.1])."""
        self._set("args", args=read_texts(args))

    def binds(self, *services: Services) -> None:
        """Serve these services to the other processes: names, lists of names, or {name: port}.

        A service without a port gets one: binds("replay", {"tensorboard": 6006}).
        """
        self._set("binds", binds=(*self._spec.binds, *read_services(services, caller())))

    def connects(self, *services: Services) -> None:
        """Use these services, which other processes bind: connects("replay", "params")."""
        self._set("connects", connects=(*self._spec.connects, *read_services(services, caller())))

    def exposes(self, *services: Services) -> None:
        """Serve these services to outside; `symphony visit` opens them: exposes({"tensorboard": 6006})."""
        self._set("exposes", exposes=(*self._spec.exposes, *read_services(services, caller())))

    bind = binds
    connect = connects
    expose = exposes

    def resource_request(
        self, cpu: Quantity | None = None, memory: Quantity | None = None, *, mem: Quantity | None = None
    ) -> None:
        """What the container needs at least: resource_request(cpu="500m", memory="8Gi").

        cpu: cores, such as 2, 0.5 or "500m". memory, or mem: bytes, such as 8e9 or "8Gi".
        """
        self._claim("resource_request", cpu=cpu, memory=mem if memory is None else memory)

    def resource_limit(
        self,
        cpu: Quantity | None = None,
        memory: Quantity | None = None,
        gpu: int | None = None,
        *,
        mem: Quantity | None = None,
    ) -> None:
        """What the container may use at most: resource_limit(cpu=4, memory="16Gi", gpu=1).

        cpu: cores, such as 2, 0.5 or "500m". memory, or mem: bytes, such as 8e9 or "8Gi". gpu: how many.
        """
        self._claim("resource_limit", cpu=cpu, memory=mem if memory is None else memory, gpu=gpu)

    def _claim(self, setting: str, **amounts: Any) -> None:
        given = {kind: amount for kind, amount in amounts.items() if amount is not None}
        before: Resources = getattr(self._spec, setting)
        self._set(setting, given, **{setting: dataclasses.replace(before, **given)})

    def register(self, path: str, plan: Plan, parent: pulumi.Resource) -> None:
        """Become a component of the running Pulumi program; the experiment's launch calls it."""
        options = pulumi.ResourceOptions(parent=parent)
        pulumi.ComponentResource.__init__(self, "symphony:index:Process", path, None, options)
        self._path, self._plan = path, plan
        declared = plan.process(path).where
        self.register_outputs({"services": self.services, "session": self.session, "declared": declared})
