"""What an `up` would do: an engine preview, the program's plan against the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import msgspec

from symphony.backends import registry
from symphony.engine import errors, workspace
from symphony.engine.run.events import Event, Report, RunRestarted, Started, Verb
from symphony.engine.run.run import Run
from symphony.errors import SymphonyError, UserError
from symphony.operations import stack_target, stacks
from symphony.operations.cluster import Changes, ClusterPlanned, WrittenCluster
from symphony.operations.image_changes import ImageChange, image_changes
from symphony.operations.program_output import ProgramOutput
from symphony.plan.changes import Change, Component, Components, changes
from symphony.plan.code import CodeSets
from symphony.plan.names import DECLARED
from symphony.plan.plan import Unused, whole
from symphony.plan.problems import PlanError, Problem, error_in, folded
from symphony.run_request import RunRequest


class MakeRun(Protocol):
    """Starts an engine run of a program, which is told the request."""

    def __call__(
        self,
        target: stack_target.StackTarget,
        request: RunRequest,
        *,
        fetch_plugins: bool,
        extra: Mapping[str, str] | None = None,
    ) -> Run: ...


@dataclass(frozen=True)
class Planned:
    """The plan of a stack and what it changes; as text, a line for each process that changes.

    print(cluster.launch(experiment, dry_run=True))

    stack:   its name. project: that of its Pulumi.yaml.
    plan:    everything that will run, as JSON. changes: what happens to each process, and why.
    unused:  settings that the backend does not use. now: how many processes there are now.
    images:  those that are built. manifests: of Kubernetes.
    code:    the files that each digest of code stands for.
    program: the files of the program -> when they changed.
    """

    stack: str
    project: str
    plan: Mapping[str, Any]
    changes: tuple[Change, ...]
    unused: tuple[str, ...]
    now: int
    images: tuple[ImageChange, ...] = ()
    manifests: tuple[Mapping[str, Any], ...] = ()
    code: CodeSets = field(default_factory=dict[str, Mapping[str, str]])
    program: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def backend(self) -> str:
        return str(self.plan["backend"])

    def __str__(self) -> str:
        rows = [f"  {change.path}: {change.kind}, {change.why}".rstrip(", ") for change in self.changes]
        return "\n".join([f"{self.stack} on {self.backend}", *rows, *map(str, self.images), *self.remarks])

    def count(self, kind: str) -> int:
        """How many processes change so: planned.count("restart"). kind: start, restart, stop or keep."""
        return sum(1 for change in self.changes if change.kind == kind)

    @cached_property
    def kept(self) -> frozenset[str]:
        """The processes that stay as they are, and the groups all of whose processes do."""

        def named(changes: Iterable[Change]) -> set[str]:
            return {name for each in changes for name in (each.path, each.path.rpartition("/")[0])}

        stay = named(each for each in self.changes if each.kind == "keep")
        others = named(each for each in self.changes if each.kind != "keep")
        # A process outside of groups names no group.
        return frozenset(stay - others - {""})

    @property
    def changes_nothing(self) -> bool:
        settled = not self.images and not self.plan["changed_files"]
        return settled and all(change.kind == "keep" for change in self.changes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is most likely not meant, a line each."""
        every = folded(msgspec.convert(self.plan["remarks"], list[Problem]))
        return tuple(_sentence(what, each) for what, each in every)

    @property
    def yaml(self) -> str:
        """The manifests as kubectl reads them; empty where the backend has none."""
        return as_yaml(self.manifests)

    def to_json(self) -> dict[str, Any]:
        """What `symphony plan --json` shows."""
        return {
            "stack": self.stack,
            "project": self.project,
            "plan": self.plan,
            "changes": [change.to_json() for change in self.changes],
            "unused": list(self.unused),
            "images": [each.to_json() for each in self.images],
        }


def as_yaml(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Manifests as the text of one YAML file."""
    import yaml

    return yaml.safe_dump_all(manifests, sort_keys=False, explicit_start=True) if manifests else ""


def _sentence(what: str, remark: Problem) -> str:
    places = remark.lines("")
    return "".join([what, f" ({places})" if places else "", f": {remark.remedy}" if remark.remedy else ""])


def plan(given: str | None, output: ProgramOutput | None = None) -> Planned | ClusterPlanned:
    """Run the program without changing anything. PlanError: its problems; SymphonyError: anything else."""
    return plan_of(stack_target.select(given), output)


def plan_of(
    target: stack_target.StackTarget, output: ProgramOutput | None = None
) -> Planned | ClusterPlanned:
    """The same for a stack that is already found."""
    return planned_from(target, _project_run, output)


def planned_from(
    target: stack_target.StackTarget,
    make_run: MakeRun,
    output: ProgramOutput | None = None,
    *,
    manifests: bool = False,
) -> Planned | ClusterPlanned:
    """What one preview of a stack comes to; make_run starts it.

    manifests: also those of the objects that it would make; what is not up yet is planned without a cluster.
    """
    before = Before(stack_target.before(target))
    request = before.request(manifests=manifests)
    fetches = not request.offline and stack_target.fetches_plugins(target, before.stack.backend)
    program = _previewed(target, partial(make_run, target, request, fetch_plugins=fetches), output)
    return program if isinstance(program, ClusterPlanned) else before.planned(target.workspace, program)


def manifests(given: str | None, output: ProgramOutput | None = None) -> tuple[Mapping[str, Any], ...]:
    """What `up` would make of a stack where nothing is: no cluster is asked. Of Secrets only the names.

    PlanError: the problems of the program. UserError: its backend has no manifests.
    """
    target = stack_target.select(given)
    if target.settings.problems:
        raise PlanError(target.name.stack, target.settings.problems)
    program = _previewed(target, partial(_project_run, target, RunRequest(manifests=True)), output)
    if isinstance(program, ClusterPlanned):
        raise UserError(f"{target.name.stack} is a cluster, which has no manifests")
    experiment = program.components.experiment.new
    if "manifests" not in experiment:
        file = workspace.config_file(target.workspace, target.name.stack).name
        what = f"{target.name.stack} is for {experiment['backend']}, which has no manifests"
        raise UserError(what, remedy=f"Set `symphony:backend: kubernetes` in {file}")
    return tuple(experiment["manifests"])


def _previewed(
    target: stack_target.StackTarget, start: Callable[[], Run], output: ProgramOutput | None
) -> Program | ClusterPlanned:
    """What the program declares in one preview."""
    changes, program = Changes(), Program()
    with stack_target.ensure_stack(target):
        with start() as run:
            for event in run:
                changes.take(event)
                program.take(event)
                if output is not None:
                    output.take(event)
        program.refuse()
        errors.check(run.outcome)
        if program.cluster is not None:
            return changes.planned(target, program.cluster)
        if not program.is_declared:
            raise no_experiment(target.name.stack)
    return program


def project_run(
    verb: Verb,
    target: stack_target.StackTarget,
    request: RunRequest,
    options: Sequence[str] = (),
    *,
    fetch_plugins: bool = False,
    extra: Mapping[str, str] | None = None,
) -> Run:
    """An engine run of the program of the project."""
    return Run(
        verb,
        target.workspace,
        target.name.stack,
        extra={**request.environment, **(extra or {})},
        options=options,
        fetch_plugins=fetch_plugins,
    )


_project_run = partial(project_run, "preview")


class Program:
    """What the program of a run declares, as the events of the engine tell it one by one."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._experiment: Component | None = None
        self._groups: dict[str, Component] = {}
        self._processes: dict[str, Component] = {}
        self._error: SymphonyError | None = None
        self.cluster: WrittenCluster | None = None
        self.files: Mapping[str, str] = {}

    def take(self, event: Event) -> None:
        """Note what an event tells."""
        match event:
            case RunRestarted():
                self._clear()
            case Report(facts=facts):
                self._error = self._error or error_in(facts)
                self.files = facts.get("program", self.files)
                if "cluster" in facts:
                    self.cluster = WrittenCluster(**facts["cluster"])
            case Started(step=step) if step.new:
                component = Component(step.old.get(DECLARED, {}), step.new.get(DECLARED, {}))
                match step.type:
                    case "symphony:index:Experiment":
                        self._experiment = component
                    case "symphony:index:ProcessGroup":
                        self._groups[step.name] = component
                    case "symphony:index:Process":
                        self._processes[step.name] = component
                    case _:
                        pass
            case _:
                pass

    @property
    def is_declared(self) -> bool:
        """Whether all of an experiment is known."""
        wanted = self._experiment.new["processes"] if self._experiment else ()
        return self._experiment is not None and all(path in self._processes for path in wanted)

    @property
    def components(self) -> Components:
        """The components of the experiment, in the order of their declaration."""
        assert self._experiment is not None, "an experiment is declared"
        paths = self._experiment.new["processes"]
        processes = {path: self._processes[path] for path in paths if path in self._processes}
        return Components(self._experiment, self._groups, processes)

    def refuse(self) -> None:
        """Raise the error that the program reports; the engine has ended by itself and keeps no lock."""
        if self._error is not None:
            raise self._error


class Before:
    """A stack as it is before a run, which says what the program changes.

    only: the processes that are started again by a run that leaves all others as they are.
    """

    def __init__(self, stack: stacks.Stack, only: Sequence[str] = ()) -> None:
        self.stack = stack
        self._only = only
        restart_reasons = stack.observer().restart_reasons(stack.recorded) if stack.recorded else {}
        self._restart_reasons = dict.fromkeys(only, "asked for") if only else restart_reasons

    def request(self, *, manifests: bool = False) -> RunRequest:
        """Return what the program is told of the stack."""
        every = self.stack.recorded.processes.values() if self.stack.recorded else ()
        uids = tuple(sorted(str(facts["uid"]) for facts in every if facts.get("uid")))
        experiment = stacks.experiment_in(self.stack.state)
        return RunRequest(
            runs_on=self.stack.backend,
            recorded=uids,
            restart=tuple(self._only) or None,
            experiment=experiment.name if experiment else "",
            manifests=manifests,
        )

    def planned(self, place: workspace.Workspace, program: Program) -> Planned:
        """Return what the program changes of what the state records and what lived."""
        components = program.components
        experiment = components.experiment.new
        recorded = self.stack.recorded if self.stack.backend == experiment["backend"] else None
        facts: Mapping[str, Mapping[str, Any]] = recorded.processes if recorded else {}
        fingerprints = {path: str(each.get("fingerprint")) for path, each in facts.items()}
        reasons = self._restart_reasons if recorded else {}
        rows = changes(fingerprints, components, reasons, _ignored(experiment["backend"]))
        if self._only:
            rows = tuple(each if each.path in self._only else Change(each.path, "keep") for each in rows)
        groups = [each.new for each in components.groups.values()]
        whole_plan = whole(experiment, [each.new for each in components.processes.values()], groups)
        resources = self.stack.state.resources if self.stack.state else ()
        unused = (Unused(each["setting"], tuple(each["made_by"])) for each in experiment["unused"])
        return Planned(
            stack=self.stack.name.stack,
            project=place.project,
            plan=whole_plan,
            changes=rows,
            unused=tuple(map(str, unused)),
            now=len(fingerprints),
            images=image_changes(resources, whole_plan["images"], components.code_sets),
            manifests=tuple(experiment.get("manifests", ())),
            code=components.new_code,
            program=program.files,
        )


def _ignored(backend: str) -> frozenset[str]:
    """Return the settings of other backends."""
    own = registry.get(backend).settings
    others = {setting for row in registry.every() for setting in row.settings} - own
    mounts = {"mounts"} if not any(each.startswith("mount_") for each in own) else set[str]()
    return frozenset(others | mounts)


def no_experiment(stack: str) -> UserError:
    """The program ran to its end and launched nothing of ours."""
    return UserError(
        f"the program of {stack} launches no experiment",
        remedy='Declare one in it: "with Experiment(...) as experiment:"',
    )
