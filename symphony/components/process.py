"""Process: the component of a program that runs in an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pulumi

from symphony.components.builder import (
    ContainerOverride,
    MemberBuilder,
    Override,
    declare,
    filled,
    without_empty_parts,
)
from symphony.components.usage_errors import as_usage_error
from symphony.plan.names import DECLARED
from symphony.spec.order import dependency
from symphony.spec.process import (
    Probe,
    ProbeOptions,
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
    """A program that an experiment runs: a tmux window, a Kubernetes container or a step of a Slurm job.

    Methods such as worker.binds("replay") and worker.set_env("LR", 0.1) add to the keywords. A wrong type
    raises at once; names, services and places are checked at launch.

    Args:
        name: Letters, digits, "-" and "_"; unique in its experiment or group.
        cmds: Shell lines, in place of command and args.
        command: The program, run without a shell; a string is split into words.
        args: The arguments of the program.
        preamble_cmds: Shell lines that run before it, such as "source venv/bin/activate".
        start_dir: The working directory; by default the project's folder, on Kubernetes the image's.
        code: Files, folders and globs of the project; if they change, `up` restarts the process.
        env: The environment variables; numbers and paths become strings. An Output is kept secret.
        secret_env: {variable: file with its value, or secret Output}; encrypted in the state, in no log.
        binds: Services that it serves to other processes: names, lists of names, or {name: port}.
        connects: Services of other processes that it uses.
        exposes: Services that it serves to users; `symphony visit` opens them.
        image: The name of the container image, an Image, or an Output (Kubernetes).
        image_pull_policy: "Always", "IfNotPresent" or "Never" (Kubernetes).
        resources: The cpu and memory that it requests, and its GPUs (Kubernetes, Slurm; tmux: GPUs only).
        limits: The cpu and memory that the container may use at most (Kubernetes).
        place: The machines that it runs on (Kubernetes, Slurm); see place().
        node_selector: Labels that its node must have (Kubernetes).
        tolerations: Node taints that it tolerates (Kubernetes).
        depends_on: Processes that it waits for before it starts: a process, a list, or {name: condition}.
        termination_delay: Seconds that it runs on once the primaries completed or one failed; see Experiment.
        restart_policy: "Always", "OnFailure" or "Never".
        readiness_probe: The Probe that shows when it is ready; by default it must listen on its ports.
        liveness_probe: A Probe that, when it fails, restarts the process by its restart policy.
        labels: Labels of its pod (Kubernetes).
        container_yml: Merged last into the container's manifest (Kubernetes).
        pod_yml: Merged last into the manifest of its pod (Kubernetes).
        opts: The pulumi.ResourceOptions of the component, such as depends_on and protect.

    Raises:
        UserError: A value has a wrong type, or an option is unknown.

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
        """Declare a process; the class documents the arguments."""
        keywords: dict[str, Any] = {"cmds": cmds, **options}
        self.pod_yml = filled(Override(), keywords.pop("pod_yml", None), f"{name}: pod_yml")
        self.container_yml = filled(
            ContainerOverride(self.set_env), keywords.pop("container_yml", None), f"{name}: container_yml"
        )
        self._path = name
        self._plan = None
        self._options = opts
        self._spec = declare(ProcessSpec, name, keywords)

    @classmethod
    def from_spec(cls, spec: ProcessSpec) -> Process:
        """Return the process that a loaded spec declares."""
        yml: Any = {"pod_yml": spec.pod.pod_yml, "container_yml": spec.container_yml}
        process = cls(spec.name, **yml)
        process._spec = spec
        return process

    @property
    def spec(self) -> ProcessSpec:
        """The declaration, as a frozen value."""
        container_yml = self._convert("container_yml", without_empty_parts(self.container_yml))
        return dataclasses.replace(super().spec, container_yml=container_yml)

    @property
    def path(self) -> str:
        """The path within the experiment: `process`, or `group/process`."""
        return self._path

    @property
    def services(self) -> dict[str, str]:
        """The address "host:port" of every service that it serves, by name; UserError before the launch."""
        return self._launched_plan.addresses(self._path)

    def set_command(self, command: Arguments) -> None:
        """Set the command, which runs without a shell.

        Args:
            command: A list of words, or a string, which is split into words.

        Raises:
            UserError: The value has a wrong type.

        Example:
            process.set_command(["python", "agent.py"])
        """
        self._set("command", command=self._convert("command", command))

    def set_args(self, args: Arguments) -> None:
        """Set the arguments of the command.

        Args:
            args: Strings, numbers, paths and Outputs.

        Raises:
            UserError: A value has a wrong type.

        Example:
            process.set_args(["--lr", 0.1])
        """
        self._set("args", args=self._convert("args", args))

    def binds(self, *services: Services) -> None:
        """Declare services that the process serves to other processes.

        Args:
            services: Names, lists of names, or {name: port}; symphony chooses omitted ports.

        Raises:
            UserError: A name or port has a wrong type.

        Example:
            process.binds("replay", {"tensorboard": 6006})
        """
        self._set("binds", binds=(*self._spec.binds, *self._convert("binds", services)))

    def connects(self, *services: Services, wait: bool = False) -> None:
        """Declare services of other processes that the process uses.

        Args:
            services: Names, or lists of names.
            wait: Whether to delay the start until the processes that bind them are ready.

        Raises:
            UserError: A name has a wrong type.

        Example:
            process.connects("replay", "params")
        """
        added: tuple[ServiceUse, ...] = self._convert("connects", services)
        self._set("connects", connects=(*self._spec.connects, *added))
        if wait:
            waits = [dependency(use.name, "connects", service=True) for use in added]
            self._set("depends_on", depends_on=(*self._spec.depends_on, *waits))

    def meet(self, rendezvous: Rendezvous) -> None:
        """Make the process one of several equal workers; new_process(replicas=, rendezvous=True) calls this.

        Args:
            rendezvous: The worker's rank, and the service through which all workers meet.

        Example:
            workers = experiment.new_process("train", command="python train.py", replicas=4, rendezvous=True)
        """
        self._set("rendezvous", rendezvous=rendezvous)
        self.connects(rendezvous.service) if rendezvous.rank else self.binds(rendezvous.service)

    def exposes(self, *services: Services) -> None:
        """Declare services that the process serves to users; `symphony visit` opens them.

        Args:
            services: Names, lists of names, or {name: port}.

        Raises:
            UserError: A name or port has a wrong type.

        Example:
            process.exposes({"tensorboard": 6006})
        """
        self._set("exposes", exposes=(*self._spec.exposes, *self._convert("exposes", services)))

    def resource_request(self, cpu: Quantity | None = None, memory: Quantity | None = None) -> None:
        """Request CPU and memory for the process (Kubernetes, Slurm).

        Args:
            cpu: Cores, such as 2, 0.5 or "500m".
            memory: Bytes, such as 8e9 or "8Gi".

        Raises:
            UserError: An amount has a wrong type.

        Example:
            process.resource_request(cpu="500m", memory="8Gi")
        """
        self._claim("resource_request", cpu=cpu, memory=memory)

    def resource_limit(
        self, cpu: Quantity | None = None, memory: Quantity | None = None, gpu: int | None = None
    ) -> None:
        """Limit the CPU and memory of the container (Kubernetes), and give the process GPUs (all backends).

        Args:
            cpu: Cores, such as 2, 0.5 or "500m".
            memory: Bytes, such as 8e9 or "8Gi".
            gpu: The number of GPUs, which are also requested.

        Raises:
            UserError: An amount has a wrong type.

        Example:
            process.resource_limit(cpu=4, memory="16Gi", gpu=1)
        """
        self._claim("resource_limit", cpu=cpu, memory=memory, gpu=gpu)

    def _claim(self, setting: str, **amounts: Any) -> None:
        with as_usage_error():
            resources = Resources(**amounts)
        changes = {kind: amount for kind, amount in vars(resources).items() if amount is not None}
        current: Resources = getattr(self._spec, setting)
        self._set(setting, changes, **{setting: dataclasses.replace(current, **changes)})

    def readiness_probe(self, **options: Unpack[ProbeOptions]) -> None:
        """Set the probe that shows when the process is ready, so that waiting processes start.

        Args:
            options: The arguments of Probe: exactly one of tcp, http, exec and log, and its timing.

        Raises:
            UserError: A value has a wrong type, or not exactly one check is set.

        Example:
            process.readiness_probe(http="/health", period_seconds=5)
        """
        self._probe("readiness_probe", options)

    def liveness_probe(self, **options: Unpack[ProbeOptions]) -> None:
        """Set the probe that shows whether the process still works; its failure ends the process.

        The restart policy then decides whether the process starts again.

        Args:
            options: The arguments of Probe: exactly one of tcp, http and exec, and its timing.

        Raises:
            UserError: A value has a wrong type, or not exactly one check is set.

        Example:
            process.liveness_probe(exec=["test", "-e", "/tmp/alive"], failure_threshold=10)
        """
        self._probe("liveness_probe", options)

    def _probe(self, setting: str, options: Mapping[str, Any]) -> None:
        with as_usage_error():
            probe = Probe(**options)
        self._set(setting, (), **{setting: probe})

    def join(self, group: str) -> None:
        """Record the group of the process."""
        self._path = f"{group}/{self.name}"

    def register(self, path: str, plan: Plan, inputs: Mapping[str, Any], parent: pulumi.Resource) -> None:
        """Register the process as a component; the launch of the experiment calls this."""
        self._path, self._plan = path, plan
        pulumi.ComponentResource.__init__(
            self, "symphony:index:Process", path, {DECLARED: inputs}, self._options_under(parent)
        )
        self.register_outputs({})
