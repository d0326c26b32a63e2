"""Experiment: the component that holds all processes of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import pulumi

from symphony import run_request
from symphony.backends.expand import ComponentInputs, Components
from symphony.components import program_run
from symphony.components.builder import Builder, declare
from symphony.components.process import Process
from symphony.components.process_group import Members, ProcessGroup, adopt, expect, find
from symphony.components.usage_errors import as_usage_error
from symphony.plan.names import DECLARED, quoted
from symphony.spec import serialize
from symphony.spec.experiment import ExperimentOptions, ExperimentSpec, GroupOptions
from symphony.spec.location import caller

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Experiment(pulumi.ComponentResource, Members, Builder[ExperimentSpec]):
    """Processes that talk over named services: a tmux session, a Kubernetes namespace or a Slurm job.

    Leaving the with block, or launch(), plans the experiment: a mistake ends the program there, and nothing
    is started. The processes start after the program has ended without an error.

    preamble_cmds, start_dir, code, env, secret_env, image and termination_delay apply to every process; see
    Process. A changed secret or config file restarts nothing.

    Args:
        name: Letters, digits, "-" and "_"; by default the stack's name up to its first dot.
        secrets: Files that appear in the folder $SYMPH_SECRETS_DIR of every process.
        configs: Files that need not be kept secret, in $SYMPH_CONFIGS_DIR.
        port_range: The first and the last port for services (tmux and Slurm).
        primary: Processes or their names; the experiment ends when they have completed.
        termination_delay: Seconds that other processes keep running after that; 0 by default.
        stop_after: The time limit of the experiment, in seconds or such as "8h".
        idle_after: How long the experiment may run without output and CPU use.
        inherit: More variables that processes inherit from the caller's environment (tmux and Slurm).
        opts: The pulumi.ResourceOptions of the component.

    Raises:
        UserError: A value has a wrong type, or an option is unknown.

    Example:
        with Experiment("rl") as experiment:
            experiment.new_process("learner", command="python", args=["learner.py"])
    """

    _kind = "experiment"
    group_class: ClassVar[type[ProcessGroup]] = ProcessGroup

    def __init__(
        self,
        name: str | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ExperimentOptions],
    ) -> None:
        """Declare an experiment; the class documents the arguments."""
        self._options = opts
        self._processes: list[Process] = []
        self._groups: list[ProcessGroup] = []
        self._plan = None
        self._spec = declare(ExperimentSpec, program_run.program_name() if name is None else name, options)
        program_run.record_declaration(self)

    @property
    def spec(self) -> ExperimentSpec:
        """The declaration of the experiment with its groups and processes, as a frozen value."""
        return dataclasses.replace(
            self._spec,
            processes=tuple(process.spec for process in self._processes),
            groups=tuple(group.spec for group in self._groups),
        )

    @property
    def plan(self) -> Plan:
        """Everything that will run, as a value; UserError before the launch."""
        return self._launched_plan

    @property
    def addresses(self) -> dict[str, str]:
        """The address "host:port" of every service, by name; UserError before the launch."""
        return self.plan.addresses()

    # declaring

    def new_process_group(
        self, name: str, *, opts: pulumi.ResourceOptions | None = None, **options: Unpack[GroupOptions]
    ) -> ProcessGroup:
        """Declare a process group; ProcessGroup explains all keywords.

        Args:
            name: Letters, digits, "-" and "_".
            opts: The pulumi.ResourceOptions of its component.

        Raises:
            UserError: A value has a wrong type, or an option is unknown.

        Example:
            experiment.new_process_group("agents", env={"SEED": 1})
        """
        return self.add_process_group(self.group_class(name, opts=opts, **options))

    def add_process_group(self, group: ProcessGroup) -> ProcessGroup:
        """Add a group to the experiment.

        Args:
            group: A ProcessGroup that is in no experiment yet.

        Raises:
            UserError: The argument is not a ProcessGroup, or the group is in an experiment already.

        Example:
            experiment.add_process_group(ProcessGroup("agents"))
        """
        expect(group, ProcessGroup, "ProcessGroup(...)")
        self._refuse_launched()
        adopt(group, f"experiment {quoted(self.name)}")
        self._groups.append(group)
        return group

    def add_process_groups(self, groups: Iterable[ProcessGroup]) -> None:
        """Add several groups to the experiment.

        Args:
            groups: ProcessGroups that are in no experiment yet.

        Raises:
            UserError: An item is not a ProcessGroup, or is in an experiment already.

        Example:
            experiment.add_process_groups([ProcessGroup("a"), ProcessGroup("b")])
        """
        for group in groups:
            self.add_process_group(group)

    def get_process_group(self, name: str) -> ProcessGroup:
        """Return the process group with this name.

        Args:
            name: The name of the group.

        Raises:
            UserError: The experiment has no group with this name.

        Example:
            experiment.get_process_group("agents")
        """
        return find(self._groups, name, f"{self._kind} {self.name}")

    def list_all_processes(self) -> list[Process]:
        """Return all processes; grouped processes come last."""
        return [*self._processes, *(process for group in self._groups for process in group.list_processes())]

    def list_process_groups(self) -> list[ProcessGroup]:
        """Return the process groups."""
        return list(self._groups)

    # saving

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain values, to save as YAML or JSON.

        Raises:
            UserError: A value, such as an Output, cannot be saved.
        """
        with as_usage_error():
            return serialize.to_dict(self.spec)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the experiment that to_dict() saved.

        Args:
            data: The dict that to_dict() returned.

        Raises:
            UserError: The dict is not a saved experiment.

        Example:
            Experiment.from_dict(experiment.to_dict())
        """
        with as_usage_error():
            spec = serialize.from_dict(data, caller())
        experiment = cls(spec.name)
        experiment._spec = dataclasses.replace(spec, processes=(), groups=())
        experiment.add_processes(map(cls.process_class.from_spec, spec.processes))
        experiment.add_process_groups(map(cls.group_class.from_spec, spec.groups))
        return experiment

    # launching

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.launch()

    def launch(self) -> None:
        """Plan the experiment and register its resources; the end of a with block calls this.

        Raises:
            pulumi.RunError: The experiment cannot run; the error lists every reason.
            SystemExit: No Pulumi program is running.
        """
        program_run.launch(self)

    def register(
        self,
        plan: Plan,
        component_inputs: Mapping[str, ComponentInputs],
        manifests: Sequence[Mapping[str, Any]],
    ) -> None:
        """Register the experiment, its groups and its processes as components; launch() calls this."""
        self._plan = plan
        # Commands that run in another folder show the user where the program is.
        inputs = {**plan.experiment_inputs(), "folder": str(Path.cwd())}
        if run_request.is_of_script():
            inputs["script"] = True
        if manifests:
            inputs["manifests"] = list(manifests)
        pulumi.ComponentResource.__init__(
            self, "symphony:index:Experiment", self._spec.name, {DECLARED: inputs}, self._with_aliases()
        )
        process_inputs = {
            path: {**own, **component_inputs[path]} for path, own in plan.process_inputs().items()
        }
        group_inputs = plan.group_inputs()
        for process in self._processes:
            path = self._path(process)
            process.register(path, plan, process_inputs[path], self)
        for group in self._groups:
            group.register(plan, group_inputs[self._path(group)], process_inputs, self)
        self.register_outputs({})

    def _with_aliases(self) -> pulumi.ResourceOptions | None:
        """Return the options with the recorded urn as an alias, if the experiment has or had a parent.

        Without it a new parent would give every process a new urn: the engine would adopt all as new, and
        then end all under their old urns.
        """
        request, parent = run_request.current(), self._options and self._options.parent
        if request.experiment_name != self._spec.name or not (parent or "$" in request.experiment):
            return self._options
        return pulumi.ResourceOptions.merge(
            self._options, pulumi.ResourceOptions(aliases=[request.experiment])
        )

    def components(self) -> Components:
        """Return the components under which a backend registers its resources."""
        groups = {self._path(group): group for group in self._groups}
        processes = {self._path(process): process for process in self._processes}
        for group in self._groups:
            processes |= {self._path(group, process): process for process in group.list_processes()}
        return Components(self, groups, processes)

    def _path(self, *members: Process | ProcessGroup) -> str:
        """Return the path of a process or group in the backend."""
        declared = "/".join(member.name for member in members)
        return self._plan.renamed.get(declared, declared) if self._plan else declared
