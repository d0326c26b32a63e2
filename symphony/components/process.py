"""Process: one program of an experiment, declared by the user's program, registered at launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import MemberBuilder, declare
from symphony.components.errors import as_usage_error
from symphony.components.overrides import ContainerOverride, Override, written
from symphony.plan.names import DECLARED
from symphony.spec.order import dependency
from symphony.spec.probe import Probe, ProbeOptions
from symphony.spec.process import (
    ProcessOptions,
    ProcessSpec,
    Quantity,
    Rendezvous,
    Resources,
    Services,
    ServiceUse,
)
from symphony.spec.shared import Arguments, Texts

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Process(pulumi.ComponentResource, MemberBuilder[ProcessSpec]):
    """One program: a window in tmux, a container on Kubernetes. It starts when its experiment is launched.

    Most keywords are also calls, for what is decided later: worker.binds("replay"). A wrong type is an error
    on its line; names, services and places are checked at launch.

    Args:
        name: Letters, digits, "-" and "_"; no two alike in an experiment or group.
        cmds: Lines for a shell, in place of command and args.
        command: The program, run without a shell; one text is split at its blanks.
        args: The arguments of the program.
        preamble_cmds: Lines for a shell before it, such as "source venv/bin/activate".
        start_dir: The folder that it starts in: by default that of the program, on Kubernetes the image's.
        code: Files, folders and globs of the project; when they change, `up` starts the process again.
        env: The environment variables; a number or path becomes text. An Output is kept secret.
        secret_env: A file with its value, or a secret Output, for each variable; kept out of states and logs.
        binds: Services that it serves to the other processes: names, lists of names, or {name: port}.
        connects: Services of other processes that it uses.
        exposes: Services that it serves to outside; `symphony visit` opens them.
        image: The name of the container image, an Image, or an Output (Kubernetes).
        image_pull_policy: "Always", "IfNotPresent" or "Never" (Kubernetes).
        resources: The cpu and memory that the container requests, and its GPUs (Kubernetes).
        limits: The cpu and memory that the container may use at most (Kubernetes).
        place: The machines that it runs on (Kubernetes); see place().
        node_selector: Labels that its node has (Kubernetes).
        tolerations: Taints of nodes that it may run on (Kubernetes).
        depends_on: Processes that it waits for before it starts: one, a list, or {name: condition}.
        termination_delay: Seconds that it goes on after the primaries have completed; see Experiment.
        restart_policy: "Always", "OnFailure" or "Never".
        readiness_probe: How it shows that it is ready, a Probe: by default it listens at what it binds.
        liveness_probe: A Probe that restarts it where it fails, by the restart policy.
        labels: Labels of its pod (Kubernetes).
        container_yml: Merged last into the container's manifest (Kubernetes).
        pod_yml: Merged last into the manifest of its pod (Kubernetes).
        opts: The pulumi.ResourceOptions of its component, such as depends_on and protect.

    Raises:
        UserError: A value has another type than its option takes, or an option is unknown.

    Example:
        worker = experiment.new_process(
            "worker",
            command="python",
            args=["worker.py", "--lr", 0.1],
            connects="replay",
            resources=Resources(cpu=2, memory="8Gi"),
        )
    """

    container_yml: ContainerOverride

    def __init__(
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ProcessOptions],
    ) -> None:
        """Declare a process; Process says what it takes."""
        keywords: dict[str, Any] = {"cmds": cmds, **options}
        self.pod_yml = Override(keywords.pop("pod_yml", None) or {})
        self.container_yml = ContainerOverride(self.set_env)
        self.container_yml.update(keywords.pop("container_yml", None) or {})
        self._path = name
        self._plan = None
        self._options = opts
        self._spec = declare(ProcessSpec, name, keywords)

    @classmethod
    def from_spec(cls, spec: ProcessSpec) -> Process:
        """Return a process that declares what a loaded spec declares."""
        yml: Any = {"pod_yml": spec.pod.pod_yml, "container_yml": spec.container_yml}
        process = cls(spec.name, **yml)
        process._spec = spec
        return process

    @property
    def spec(self) -> ProcessSpec:
        """The declaration, as a frozen value."""
        container_yml = self._convert("container_yml", written(self.container_yml))
        return dataclasses.replace(super().spec, container_yml=container_yml)

    @property
    def path(self) -> str:
        """Its name within the experiment: `process`, or `group/process`."""
        return self._path

    @property
    def services(self) -> dict[str, str]:
        """The address "host:port" of every service that it serves. UserError: it is not launched yet."""
        return self._launched.addresses(self._path)

    def set_command(self, command: Arguments) -> None:
        """Set the command, which runs without a shell.

        Args:
            command: A list of words, or one text, which is split at its blanks.

        Raises:
            UserError: It has another type.

        Example:
            process.set_command(["python", "agent.py"])
        """
        self._set("command", command=self._convert("command", command))

    def set_args(self, args: Arguments) -> None:
        """Set the arguments of the command.

        Args:
            args: Texts, numbers, paths and Outputs.

        Raises:
            UserError: One has another type.

        Example:
            process.set_args(["--lr", 0.1])
        """
        self._set("args", args=self._convert("args", args))

    def binds(self, *services: Services) -> None:
        """Serve services to the other processes.

        Args:
            services: Names, lists of names, or {name: port}; a service without a port gets one.

        Raises:
            UserError: A name or port has another type.

        Example:
            process.binds("replay", {"tensorboard": 6006})
        """
        self._set("binds", binds=(*self._spec.binds, *self._convert("binds", services)))

    def connects(self, *services: Services, wait: bool = False) -> None:
        """Use services that other processes bind.

        Args:
            services: Names, or lists of names.
            wait: Whether to start only when the processes that bind them are ready.

        Raises:
            UserError: A name has another type.

        Example:
            process.connects("replay", "params")
        """
        added: tuple[ServiceUse, ...] = self._convert("connects", services)
        self._set("connects", connects=(*self._spec.connects, *added))
        if wait:
            waits = [dependency(each.name, "connects", service=True) for each in added]
            self._set("depends_on", depends_on=(*self._spec.depends_on, *waits))

    def meet(self, rendezvous: Rendezvous) -> None:
        """Join several equal workers; new_process(replicas=, rendezvous=True) calls it.

        Args:
            rendezvous: The worker's rank, and the service by which all of them meet.

        Example:
            workers = experiment.new_process("train", command="python train.py", replicas=4, rendezvous=True)
        """
        self._set("rendezvous", rendezvous=rendezvous)
        self.connects(rendezvous.service) if rendezvous.rank else self.binds(rendezvous.service)

    def exposes(self, *services: Services) -> None:
        """Serve services to outside; `symphony visit` opens them.

        Args:
            services: As of binds().

        Raises:
            UserError: A name or port has another type.

        Example:
            process.exposes({"tensorboard": 6006})
        """
        self._set("exposes", exposes=(*self._spec.exposes, *self._convert("exposes", services)))

    def resource_request(self, cpu: Quantity | None = None, memory: Quantity | None = None) -> None:
        """Claim what the container needs at least.

        Args:
            cpu: Cores, such as 2, 0.5 or "500m".
            memory: Bytes, such as 8e9 or "8Gi".

        Raises:
            UserError: An amount has another type.

        Example:
            process.resource_request(cpu="500m", memory="8Gi")
        """
        self._claim("resource_request", cpu=cpu, memory=memory)

    def resource_limit(
        self, cpu: Quantity | None = None, memory: Quantity | None = None, gpu: int | None = None
    ) -> None:
        """Limit what the container may use.

        Args:
            cpu: Cores, such as 2, 0.5 or "500m".
            memory: Bytes, such as 8e9 or "8Gi".
            gpu: The number of GPUs, which the container gets.

        Raises:
            UserError: An amount has another type.

        Example:
            process.resource_limit(cpu=4, memory="16Gi", gpu=1)
        """
        self._claim("resource_limit", cpu=cpu, memory=memory, gpu=gpu)

    def _claim(self, setting: str, **amounts: Any) -> None:
        with as_usage_error():
            claimed = Resources(**amounts)
        made = {kind: amount for kind, amount in vars(claimed).items() if amount is not None}
        before: Resources = getattr(self._spec, setting)
        self._set(setting, made, **{setting: dataclasses.replace(before, **made)})

    def readiness_probe(self, **options: Unpack[ProbeOptions]) -> None:
        """Set the probe that tells whether the process is ready; processes that wait for it start then.

        Args:
            options: Those of Probe: exactly one of tcp, http, exec and log; how often and how long.

        Raises:
            UserError: A value has another type, or there is not exactly one check.

        Example:
            process.readiness_probe(http="/health", period_seconds=5)
        """
        self._probe("readiness_probe", options)

    def liveness_probe(self, **options: Unpack[ProbeOptions]) -> None:
        """Set the probe that tells whether the process still works; if it fails, the restart policy applies.

        Args:
            options: Those of Probe: exactly one of tcp, http and exec; how often and how long.

        Raises:
            UserError: A value has another type, or there is not exactly one check.

        Example:
            process.liveness_probe(exec=["test", "-e", "/tmp/alive"], failure_threshold=10)
        """
        self._probe("liveness_probe", options)

    def _probe(self, setting: str, options: Mapping[str, Any]) -> None:
        with as_usage_error():
            made = {setting: Probe(**options)}
        self._set(setting, (), **made)

    def join(self, group: str) -> None:
        """Note the group that it is in."""
        self._path = f"{group}/{self.name}"

    def register(self, path: str, plan: Plan, inputs: Mapping[str, Any], parent: pulumi.Resource) -> None:
        """Become a component of the running Pulumi program; the experiment's launch calls it."""
        self._path, self._plan = path, plan
        pulumi.ComponentResource.__init__(
            self, "symphony:index:Process", path, {DECLARED: inputs}, self._options_under(parent)
        )
        self.register_outputs({})
