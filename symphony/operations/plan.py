"""What an `up` would do: an engine preview, the program's plan against the state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from symphony.backends import registry
from symphony.engine import errors, workspace
from symphony.engine.run.outcome import Verb
from symphony.engine.run.run import Run
from symphony.errors import UserError
from symphony.operations import stack_target, stacks
from symphony.operations.cluster import Changes, ClusterPlanned
from symphony.operations.image_changes import ImageChange, image_changes
from symphony.operations.program_output import ProgramOutput
from symphony.plan.changes import Change, changes
from symphony.plan.code import CodeSets
from symphony.plan.plan_file import PlanFile, WrittenPlan, plan_file, problem
from symphony.plan.problems import PlanError, Problem, folded

MakeRun = Callable[[stack_target.StackTarget, PlanFile], Run]


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
        every = folded([problem(each) for each in self.plan["remarks"]])
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
    offline = manifests and before.stack.backend is None
    fetches = not offline and stack_target.fetches_plugins(target, before.stack.backend)
    request = plan_file(before.uids, before.stack.backend, plugins=fetches, manifests=manifests)
    written = _previewed(target, request, make_run, output)
    return before.compared(target.workspace, written) if isinstance(written, WrittenPlan) else written


def manifests(given: str | None, output: ProgramOutput | None = None) -> tuple[Mapping[str, Any], ...]:
    """What `up` would make of a stack where nothing is: no cluster is asked. Of Secrets only the names.

    PlanError: the problems of the program. UserError: its backend has no manifests.
    """
    target = stack_target.select(given)
    if target.settings.problems:
        raise PlanError(target.name.stack, target.settings.problems)
    written = _previewed(target, plan_file(plugins=False, manifests=True), _project_run, output)
    if isinstance(written, ClusterPlanned):
        raise UserError(f"{target.name.stack} is a cluster, which has no manifests")
    if not written.manifests:
        file = workspace.config_file(target.workspace, target.name.stack).name
        what = f"{target.name.stack} is for {written.backend}, which has no manifests"
        raise UserError(what, remedy=f"Set `symphony:backend: kubernetes` in {file}")
    return written.manifests


def _previewed(
    target: stack_target.StackTarget,
    request: AbstractContextManager[PlanFile],
    make_run: MakeRun,
    output: ProgramOutput | None,
) -> WrittenPlan | ClusterPlanned:
    """What the program hands over in one preview."""
    changes = Changes()
    with stack_target.ensure_stack(target), request as box:
        with make_run(target, box) as run:
            for event in run:
                changes.take(event)
                if output is not None:
                    output.take(event)
        written = box.take()
        errors.check(run.outcome)
        if (cluster := box.take_cluster()) is not None:
            return changes.planned(target, cluster)
        if written is None:
            raise no_experiment(target.name.stack)
    return written


def project_run(
    verb: Verb, target: stack_target.StackTarget, box: PlanFile, options: Sequence[str] = ()
) -> Run:
    """An engine run of the program of the project."""
    return Run(
        verb,
        target.workspace,
        target.name.stack,
        extra=box.environment,
        options=options,
        fetch_plugins=box.plugins,
        needs_plugins=box.needs_plugins,
    )


_project_run = partial(project_run, "preview")


class Before:
    """A stack as it is before a run: what the program's plan is held against.

    only: the processes that are started again by a run that leaves all others as they are.
    """

    def __init__(self, stack: stacks.Stack, only: Collection[str] = ()) -> None:
        self.stack = stack
        self._only = only
        restart_reasons = stack.observer().restart_reasons(stack.recorded) if stack.recorded else {}
        self._restart_reasons = dict.fromkeys(only, "asked for") if only else restart_reasons

    @property
    def uids(self) -> set[str]:
        """What tells what the state records from others of its names, where the backend has such."""
        every = self.stack.recorded.processes.values() if self.stack.recorded else ()
        return {str(facts["uid"]) for facts in every if facts.get("uid")}

    def compared(self, place: workspace.Workspace, written: WrittenPlan) -> Planned:
        """The program's plan against what the state records and what lived."""
        recorded = self.stack.recorded if self.stack.backend == written.backend else None
        processes: Mapping[str, Mapping[str, Any]] = recorded.processes if recorded else {}
        changed_fields = registry.get(written.backend).observer.changed_fields
        sets = {**stacks.code(self.stack), **written.code}
        rows = changes(
            processes, written.inputs, changed_fields, self._restart_reasons if recorded else {}, sets
        )
        state = self.stack.state
        images = image_changes(state.resources if state else (), written.plan["images"], sets)
        if self._only:
            rows = tuple(each if each.path in self._only else Change(each.path, "keep") for each in rows)
        about = (self.stack.name.stack, place.project, written.plan, rows, written.unused, len(processes))
        return Planned(*about, images, written.manifests, written.code, written.program)


def no_experiment(stack: str) -> UserError:
    """The program ran to its end and launched nothing of ours."""
    return UserError(
        f"the program of {stack} launches no experiment",
        remedy='Declare one in it: "with Experiment(...) as experiment:"',
    )
