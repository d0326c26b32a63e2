"""ProcessGroup: the component of processes that share a machine, and the calls that declare processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

import pulumi

from symphony.components.builder import MemberBuilder, Override, declare, filled
from symphony.components.process import Process
from symphony.components.usage_errors import usage_error
from symphony.plan.names import DECLARED, nearest, quoted
from symphony.spec.experiment import GroupOptions, ProcessGroupSpec
from symphony.spec.process import ProcessOptions, Rendezvous
from symphony.spec.shared import Texts

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Members:
    """The declaring calls that an experiment and a process group share."""

    # The word for the owner in messages.
    _kind = ""
    process_class: ClassVar[type[Process]] = Process

    if TYPE_CHECKING:  # Pulumi evaluates the annotations of components
        _processes: list[Process]

        @property
        def name(self) -> str: ...
        def _refuse_launched(self) -> None: ...

    @overload
    def new_process(
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ProcessOptions],
    ) -> Process: ...

    @overload
    def new_process(
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        replicas: int,
        rendezvous: bool = False,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ProcessOptions],
    ) -> list[Process]: ...

    def new_process(
        self,
        name: str,
        cmds: Texts | None = None,
        *,
        replicas: int | None = None,
        rendezvous: bool = False,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ProcessOptions],
    ) -> Process | list[Process]:
        """Declare a process, or several equal processes; Process explains all keywords.

        Args:
            name: Letters, digits, "-" and "_".
            cmds: Shell lines; or use command= and args=, which run without a shell.
            replicas: The number of equal processes NAME-0, NAME-1, ...; the call then returns their list.
            rendezvous: Whether to set RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun.
            opts: The pulumi.ResourceOptions of the component.

        Raises:
            UserError: A value has a wrong type, or an option is unknown.

        Example:
            experiment.new_process("agent", command="python agent.py", connects=["replay"])
            experiment.new_process("train", command="python train.py", replicas=4, rendezvous=True)
        """
        if replicas is None:
            if rendezvous:
                raise usage_error(f"{name}: rendezvous=True without replicas=", "Add replicas=NUMBER")
            return self._add(self.process_class(name, cmds, opts=opts, **options))
        if type(replicas) is not int or replicas < 1:
            raise usage_error(f"{name}: replicas is {replicas!r}", "Give a whole number, 1 or more")
        members = [
            self.process_class(f"{name}-{rank}", cmds, opts=opts, **options) for rank in range(replicas)
        ]
        if rendezvous:
            for rank, member in enumerate(members):
                member.meet(Rendezvous(rank, replicas, f"{name}-rendezvous"))
        return [self._add(member) for member in members]

    def add_process(self, process: Process) -> Process:
        """Add a process.

        Args:
            process: A Process that is in no experiment yet.

        Raises:
            UserError: The argument is not a Process, or the process is in an experiment or group already.

        Example:
            experiment.add_process(Process("agent", command="python agent.py"))
        """
        expect(process, Process, "Process(...)")
        return self._add(process)

    def _add(self, process: Process) -> Process:
        self._refuse_launched()
        adopt(process, f"{self._kind} {quoted(self.name)}")
        self._processes.append(process)
        return process

    def add_processes(self, processes: Iterable[Process]) -> None:
        """Add several processes.

        Args:
            processes: Processes that are in no experiment yet.

        Raises:
            UserError: An item is not a Process, or is in an experiment or group already.

        Example:
            experiment.add_processes([Process("a"), Process("b")])
        """
        for process in processes:
            self.add_process(process)

    def get_process(self, name: str) -> Process:
        """Return the process with this name.

        Args:
            name: The name of the process; ask a group for its processes.

        Raises:
            UserError: No process has this name.

        Example:
            experiment.get_process("learner")
        """
        return find(self._processes, name, f"{self._kind} {self.name}")

    def list_processes(self) -> list[Process]:
        """Return the processes in the order of declaration, without the processes of groups."""
        return list(self._processes)


class ProcessGroup(pulumi.ComponentResource, Members, MemberBuilder[ProcessGroupSpec]):
    """Processes that share a machine: a Kubernetes pod, which restarts whole, or windows `group:process`.

    preamble_cmds, start_dir, code, env, secret_env, image, image_pull_policy and termination_delay apply to
    all its processes, which may override them. place on the group is for all of them together; a process
    may have its own place. The pod's settings are set on the group alone: node_selector, tolerations,
    restart_policy, labels, pod_yml. Process explains them.

    Args:
        name: Letters, digits, "-" and "_".
        opts: The pulumi.ResourceOptions of the component, such as depends_on and protect.

    Raises:
        UserError: A value has a wrong type, or an option is unknown.

    Example:
        group = experiment.new_process_group("agents", env={"SEED": 1})
        group.new_process("agent-0", command=["python", "agent.py"])
    """

    _kind = "process group"

    def __init__(
        self, name: str, *, opts: pulumi.ResourceOptions | None = None, **options: Unpack[GroupOptions]
    ) -> None:
        """Declare a process group; the class documents the arguments."""
        keywords: dict[str, Any] = {**options}
        self.pod_yml = filled(Override(), keywords.pop("pod_yml", None), f"{name}: pod_yml")
        self._processes: list[Process] = []
        self._plan = None
        self._options = opts
        self._spec = declare(ProcessGroupSpec, name, keywords)

    @classmethod
    def from_spec(cls, spec: ProcessGroupSpec) -> ProcessGroup:
        """Return the group that a loaded spec declares."""
        group = cls(spec.name, pod_yml=spec.pod.pod_yml)
        group._spec = dataclasses.replace(spec, processes=())
        group.add_processes(map(cls.process_class.from_spec, spec.processes))
        return group

    @property
    def path(self) -> str:
        """The path within the experiment, which is the name."""
        return self.name

    def _add(self, process: Process) -> Process:
        added = super()._add(process)
        added.join(self.name)
        return added

    @property
    def spec(self) -> ProcessGroupSpec:
        """The declaration of the group and its processes, as a frozen value."""
        return dataclasses.replace(super().spec, processes=tuple(process.spec for process in self._processes))

    def register(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        process_inputs: Mapping[str, Mapping[str, Any]],
        parent: pulumi.Resource,
    ) -> None:
        """Register the group and its processes as components; the launch of the experiment calls this."""
        self._plan = plan
        name = plan.renamed.get(self.name, self.name)
        pulumi.ComponentResource.__init__(
            self, "symphony:index:ProcessGroup", name, {DECLARED: inputs}, self._options_under(parent)
        )
        for process in self._processes:
            declared = f"{self.name}/{process.name}"
            path = plan.renamed.get(declared, declared)
            process.register(path, plan, process_inputs[path], self)
        self.register_outputs({})


def adopt(member: Process | Members, owner: str) -> None:
    """Record the owner of a process or group.

    Raises:
        UserError: The process or group has an owner already.
    """
    fields: dict[str, Any] = vars(member)
    if (other := fields.get("_owner")) is not None:
        what = f"{quoted(member.name)} is in {other} already"
        raise usage_error(what, f"Declare a new {type(member).__name__} instead")
    fields["_owner"] = owner


def find(members: Iterable[Any], name: str, within: str) -> Any:
    """Return the declared process or group with a name.

    Raises:
        UserError: The name is unknown; the error suggests a similar name.
    """
    by_name = {member.name: member for member in members}
    if name in by_name:
        return by_name[name]
    remedy = f"Use one of: {', '.join(map(quoted, by_name))}" if by_name else "Declare it first"
    if near := nearest(str(name), by_name):
        remedy = f"Did you mean {quoted(near)}?"
    raise usage_error(f"{within} has no {quoted(name)}", remedy)


def expect(member: object, kind: type[Any], maker: str) -> None:
    """Raise UserError unless the thing is an instance of `kind`."""
    if not isinstance(member, kind):
        what = f"expected a {kind.__name__}, got a {type(member).__name__}"
        raise usage_error(what, f"Add the {kind.__name__} that {maker} returns")
