"""Experiment: what is launched, listed and deleted as one; the root of every user's program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import pulumi

from symphony.backends.expand import Components
from symphony.components import run
from symphony.components.builder import Builder, declare
from symphony.components.errors import as_usage_error
from symphony.components.members import Members, expect, find
from symphony.components.process import Process
from symphony.components.process_group import ProcessGroup
from symphony.plan import plan_file
from symphony.plan.code import packed
from symphony.spec import serialize
from symphony.spec.experiment import ExperimentOptions, ExperimentSpec, GroupOptions
from symphony.spec.location import caller

if TYPE_CHECKING:
    from symphony.plan.plan import Plan


class Experiment(pulumi.ComponentResource, Members, Builder[ExperimentSpec]):
    """Processes that talk over named services, launched as one: a session in tmux, a namespace on Kubernetes.

    with Experiment("rl") as experiment:
        experiment.new_process("learner", command="python", args=["learner.py"])

    Leaving the block, or launch(), plans the experiment: a mistake ends the program there and nothing is
    started. The processes start when the program has come to its end without an error.

    name:       letters, digits, "-" and "_"; that of the stack by default.
    secrets:    files that appear in the folder $SYMPH_SECRETS_DIR of every process.
    configs:    files that need not be kept secret, in $SYMPH_CONFIGS_DIR.
    port_range: (first, last) of the ports that are chosen for services (tmux).
    inherit:    variables of the caller's environment that the processes get beside the usual ones (tmux).
    opts:       the pulumi.ResourceOptions of its component.

    Of preamble_cmds, start_dir, code, env, secret_env and image (or container_image), see Process: what is
    said here holds for every process. What changes in a secret or config file restarts nothing.
    """

    _kind = "experiment"

    def __init__(
        self,
        name: str | None = None,
        *,
        opts: pulumi.ResourceOptions | None = None,
        **options: Unpack[ExperimentOptions],
    ) -> None:
        """Declare an experiment; Experiment says what it takes."""
        self._options = opts
        self._processes: list[Process] = []
        self._groups: list[ProcessGroup] = []
        self._plan = None
        self._spec = declare(ExperimentSpec, run.program_name() if name is None else name, options)
        run.declared(self)

    @property
    def spec(self) -> ExperimentSpec:
        """What was declared of the experiment and everything in it, as a frozen value."""
        return dataclasses.replace(
            self._spec,
            processes=tuple(each.spec for each in self._processes),
            groups=tuple(each.spec for each in self._groups),
        )

    @property
    def plan(self) -> Plan:
        """Everything that will run, as a value. UserError: it is not launched yet."""
        return self._launched

    @property
    def addresses(self) -> dict[str, str]:
        """service -> "host:port". UserError: it is not launched yet."""
        return self.plan.addresses()

    # declaring

    def new_process_group(self, name: str, **options: Unpack[GroupOptions]) -> ProcessGroup:
        """Declare a process group: new_process_group("agents", env={"SEED": 1}).

        name: letters, digits, "-" and "_". This and all other keywords are those of ProcessGroup.
        """
        return self.add_process_group(ProcessGroup(name, **options))

    def add_process_group(self, group: ProcessGroup) -> ProcessGroup:
        """Put a group into the experiment: add_process_group(ProcessGroup("a")). UserError: it is none."""
        expect(group, ProcessGroup, "ProcessGroup(...)")
        self._groups.append(group)
        return group

    def add_process_groups(self, groups: Iterable[ProcessGroup]) -> None:
        """Put groups into it: add_process_groups([ProcessGroup("a"), ProcessGroup("b")]).

        groups, UserError: as add_process_group(), of each.
        """
        for group in groups:
            self.add_process_group(group)

    def get_process_group(self, name: str) -> ProcessGroup:
        """The process group of that name: get_process_group("agents"). UserError: there is none."""
        return find(self._groups, name, f"{self._kind} {self.name}")

    def list_all_processes(self) -> list[Process]:
        """All processes, those in groups last."""
        return [*self._processes, *(process for group in self._groups for process in group.list_processes())]

    def list_process_groups(self) -> list[ProcessGroup]:
        """The process groups."""
        return list(self._groups)

    # saving

    def dump_dict(self) -> dict[str, Any]:
        """The declaration as plain values. UserError: a value of it cannot be saved."""
        with as_usage_error():
            return serialize.dump_dict(self.spec)

    def dump_json(self, file: str | Path) -> None:
        """Save the declaration as JSON: dump_json("rl.json"). file: its path; an old one is replaced.

        UserError: a value of it cannot be saved, or the file cannot be written.
        """
        with as_usage_error():
            Path(file).write_text(serialize.dump_json(self.spec), encoding="utf-8")

    def dump_yaml(self, file: str | Path) -> None:
        """Save the declaration as YAML: dump_yaml("rl.yaml"). file, UserError: as dump_json()."""
        with as_usage_error():
            Path(file).write_text(serialize.dump_yaml(self.spec), encoding="utf-8")

    def dump_json_str(self) -> str:
        """The declaration as JSON. UserError: a value of it cannot be saved."""
        with as_usage_error():
            return serialize.dump_json(self.spec)

    def dump_yaml_str(self) -> str:
        """The declaration as YAML. UserError: a value of it cannot be saved."""
        with as_usage_error():
            return serialize.dump_yaml(self.spec)

    dump_json_file = dump_json
    dump_yaml_file = dump_yaml

    @classmethod
    def load_dict(cls, data: Mapping[str, Any]) -> Experiment:
        """An experiment that declares what a saved one did: Experiment.load_dict(experiment.dump_dict()).

        data: what dump_dict() returned. UserError: it is not a saved experiment.
        """
        with as_usage_error():
            return cls.from_spec(serialize.load_dict(data, caller()))

    @classmethod
    def load_json(cls, file: str | Path) -> Experiment:
        """The experiment in a JSON file: Experiment.load_json("rl.json"). UserError: no saved experiment."""
        with as_usage_error():
            return cls.from_spec(serialize.load_json(Path(file).read_text(encoding="utf-8"), caller()))

    @classmethod
    def load_yaml(cls, file: str | Path) -> Experiment:
        """The experiment in a YAML file: Experiment.load_yaml("rl.yaml"). UserError: no saved experiment."""
        with as_usage_error():
            return cls.from_spec(serialize.load_yaml(Path(file).read_text(encoding="utf-8"), caller()))

    @classmethod
    def load_json_str(cls, text: str) -> Experiment:
        """The experiment in a JSON text: Experiment.load_json_str(text). UserError: no saved experiment."""
        with as_usage_error():
            return cls.from_spec(serialize.load_json(text, caller()))

    @classmethod
    def load_yaml_str(cls, text: str) -> Experiment:
        """The experiment in a YAML text: Experiment.load_yaml_str(text). UserError: no saved experiment."""
        with as_usage_error():
            return cls.from_spec(serialize.load_yaml(text, caller()))

    load_json_file = load_json
    load_yaml_file = load_yaml

    @classmethod
    def from_spec(cls, spec: ExperimentSpec) -> Experiment:
        """An experiment that declares what a spec declares."""
        experiment = cls(spec.name)
        experiment._processes = [Process.from_spec(each) for each in spec.processes]
        experiment._groups = [ProcessGroup.from_spec(each) for each in spec.groups]
        experiment._spec = dataclasses.replace(spec, processes=(), groups=())
        return experiment

    # launching

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.launch()

    def launch(self) -> None:
        """Plan the experiment and hand it to the running Pulumi program; the end of a with block does so.

        experiment.launch()

        pulumi.RunError: it cannot run, with every reason. SystemExit: no Pulumi program is running.
        """
        run.launch(self)

    def register(self, plan: Plan) -> None:
        """Become a component of the running Pulumi program with all that is in it; launch() calls it."""
        pulumi.ComponentResource.__init__(
            self, "symphony:index:Experiment", self._spec.name, None, self._options
        )
        self._plan = plan
        for process in self._processes:
            process.register(self._path(process), plan, self)
        for group in self._groups:
            group.register(plan, self)
        outputs: Mapping[str, Any] = {
            "session": self.session,
            "backend": plan.backend,
            "addresses": {service.name: service.address for service in plan.services},
            "exposed": [service.name for service in plan.services if service.exposed],
            # So that a person who is elsewhere can be told where its program is.
            "folder": str(Path.cwd()),
        }
        if (restarted := plan_file.restarted()) is not None:
            outputs = restarted.outputs
        # So that the next plan can say which files changed.
        code = {**plan_file.code_in_use(), **plan.code}
        self.register_outputs({**outputs, **({"code": packed(code)} if code else {})})

    def components(self) -> Components:
        """What a backend hangs its resources under."""
        free = {self._path(each): each for each in self._processes}
        grouped = {self._path(group, each): each for group in self._groups for each in group.list_processes()}
        return Components(self, {self._path(each): each for each in self._groups}, {**free, **grouped})

    def _path(self, *things: Process | ProcessGroup) -> str:
        """What something is called in the backend."""
        declared = "/".join(each.name for each in things)
        return self._plan.renamed.get(declared, declared) if self._plan else declared
