"""Plans an `up`: runs a preview and compares the program's declaration with the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import msgspec

from symphony.backends import registry, settings_reader
from symphony.backends.observe import PATIENCE, Resource
from symphony.engine import errors, workspace
from symphony.engine.run.events import Diagnostic, Event, Finished, Report, RunRestarted, Started, Step, Verb
from symphony.engine.run.run import Run
from symphony.errors import SymphonyError, UserError
from symphony.operations import cluster, kept_code, selected_stack, stacks
from symphony.plan.changes import (
    Change,
    Component,
    Components,
    changes,
    digest_of_supervision,
    with_followers,
)
from symphony.plan.code import CodeSets, changed_names
from symphony.plan.names import DECLARED, and_more
from symphony.plan.plan import Unused, whole
from symphony.plan.problems import PlanError, Problem, count, error_in, folded
from symphony.run_request import RunRequest

IMAGE = "pulumi-python:dynamic/symphony_docker:Image"
# The maximum number of changed files of an image that are named.
_MOST_FILES = 3
_STACK = "::pulumi:pulumi:Stack::"
# The kind of change of each operation of the engine on a resource.
_KINDS = {
    "create": "create",
    "update": "update",
    "replace": "replace",
    "delete": "delete",
    "same": "keep",
    "read": "keep",
}


# A program that a script runs in its own process.
Program = Callable[[RunRequest], None]


@dataclass(frozen=True)
class ImageChange:
    """An image to build and push, with the reasons; unless `needs_build`, an earlier run has pushed it."""

    name: str
    reference: str
    reasons: tuple[str, ...]
    needs_build: bool = True

    def __str__(self) -> str:
        if not self.needs_build:
            return f"image {self.name}: {self.reference}, not built again"
        return f"image {self.name}: build and push {self.reference} ({'; '.join(self.reasons)})"


@dataclass(frozen=True)
class Planned:
    """The plan of a stack and its changes; str() gives a line for each process, image and remark.

    Attributes:
        stack, project: The names of the stack and of its project.
        plan: Everything that will run, as JSON.
        changes: The change of each process, with the reasons.
        unused: Settings that the backend does not use.
        now: The current number of processes.
        images: The images that change: to build, or pushed by an earlier run.
        manifests: The Kubernetes manifests.
        code: The files of each code digest.
        program: The files of the program, with the time of their last change.
        parameters: Value, default and origin of each parameter of the program, by its name.
        folder: The folder that the program runs in, to which its code is relative.

    Example:
        print(cluster.launch(experiment, dry_run=True))
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
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    folder: str = ""

    @property
    def backend(self) -> str:
        return str(self.plan["backend"])

    def __str__(self) -> str:
        rows = [f"  {change.path}: {change.kind}, {change.why}".rstrip(", ") for change in self.changes]
        return "\n".join([f"{self.stack} on {self.backend}", *rows, *map(str, self.images), *self.remarks])

    def count(self, kind: str) -> int:
        """Return the number of processes with a kind of change: planned.count("restart").

        kind: start, restart, stop or keep.
        """
        return sum(1 for change in self.changes if change.kind == kind)

    @cached_property
    def kept(self) -> frozenset[str]:
        """The unchanged processes, and the groups in which all are unchanged."""

        kept, changed = set[str](), set[str]()
        for change in self.changes:
            names = kept if change.kind == "keep" else changed
            names |= {change.path, change.path.rpartition("/")[0]}
        # The group of a process outside of groups is empty.
        return frozenset(kept - changed - {""})

    @property
    def changes_nothing(self) -> bool:
        files_change = self.images or self.plan["changed_files"]
        return not files_change and all(change.kind == "keep" for change in self.changes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Likely mistakes in the program, one line for each."""
        remarks = folded(msgspec.convert(self.plan["remarks"], list[Problem]))
        return tuple(_sentence(what, remark) for what, remark in remarks)

    @property
    def yaml(self) -> str:
        """The manifests as kubectl reads them; empty if the backend has none."""
        return as_yaml(self.manifests)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `symphony plan --json`."""
        return {
            "stack": self.stack,
            "project": self.project,
            "plan": self.plan,
            "changes": [change.to_json() for change in self.changes],
            "unused": list(self.unused),
            "parameters": dict(self.parameters),
            "images": [asdict(image) for image in self.images],
        }


@dataclass(frozen=True)
class ResourceChange:
    """The change of a resource of a cluster, such as "update" of `NodePool rl-cpu`, with the reason."""

    name: str
    kind: str
    why: str = ""


@dataclass(frozen=True)
class ResourcesPlanned:
    """The changes of a stack that makes a cluster instead of an experiment."""

    stack: str
    project: str
    changes: tuple[ResourceChange, ...]

    @property
    def changes_nothing(self) -> bool:
        return all(change.kind == "keep" for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


AnyPlanned = Planned | ResourcesPlanned


class ProgramOutput:
    """Prints the output of the user's program; if it runs several times, a later run only adds new lines.

    warnings: whether it also prints warnings, as of `pulumi.log.warn()`; `up` shows them as remarks.
    """

    def __init__(self, *, warnings: bool = False) -> None:
        self._warnings = warnings
        self._write: Callable[[str], None] | None = None
        self._before: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    def to(self, write: Callable[[str], None]) -> Self:
        """Begin another run of the program, whose lines go to a function."""
        self._write = write
        self._before |= self._now
        self._now.clear()
        return self

    def take(self, event: object) -> None:
        """Print the lines of an event of the engine."""
        if self._write is None:
            return
        if isinstance(event, RunRestarted):
            self.to(self._write)
        if isinstance(event, Diagnostic) and _is_program_output(event, warnings=self._warnings):
            for line in filter(None, map(str.rstrip, event.message.splitlines())):
                self._now[line] += 1
                if self._now[line] > self._before[line]:
                    self._write(line)


def _is_program_output(event: Diagnostic, *, warnings: bool) -> bool:
    """Return whether the program printed a line; a line with a resource's urn is from a plugin."""
    is_from_resource = event.urn and _STACK not in event.urn
    is_wanted = event.severity.startswith("info") or (warnings and event.severity == "warning")
    return is_wanted and not event.ephemeral and not is_from_resource


def as_yaml(manifests: Iterable[Mapping[str, Any]]) -> str:
    """Return manifests as the text of one YAML file."""
    import yaml

    return yaml.safe_dump_all(manifests, sort_keys=False, explicit_start=True) if manifests else ""


def _sentence(what: str, remark: Problem) -> str:
    lines = remark.lines("")
    return "".join([what, f" ({lines})" if lines else "", f": {remark.remedy}" if remark.remedy else ""])


def plan_of(
    selected: selected_stack.SelectedStack,
    output: ProgramOutput | None = None,
    *,
    program: Program | None = None,
    manifests: bool = False,
) -> AnyPlanned:
    """Run a program without changing anything, and return its plan, with the manifests if asked for.

    Raises:
        PlanError: The declaration has problems.
        SymphonyError: The engine or a provider failed.
    """
    recorded = RecordedStack(selected_stack.recorded_stack(selected))
    request = recorded.request(selected, manifests=manifests)
    fetches = not request.offline and selected_stack.fetches_plugins(selected, recorded.stack.backend)
    declared = _preview(selected, request, output, program=program, fetch_plugins=fetches)
    return recorded.changes_to(selected, declared)


def manifests(
    selected: selected_stack.SelectedStack, output: ProgramOutput | None = None
) -> tuple[Mapping[str, Any], ...]:
    """Return the manifests of a stack as if nothing were up, without contacting a cluster.

    Raises:
        PlanError: The declaration has problems.
        UserError: The backend has no manifests.
    """
    if selected.settings.problems:
        raise PlanError(selected.name.stack, selected.settings.problems)
    declared = _preview(selected, msgspec.structs.replace(_parameters(selected), manifests=True), output)
    if not declared.is_declared:
        raise UserError(f"{selected.name.stack} declares a cluster, which has no Kubernetes manifests")
    experiment = declared.components.experiment.new
    if "manifests" not in experiment:
        file = workspace.config_file(selected.workspace, selected.name.stack).name
        what = f"{selected.name.stack} is for {experiment['backend']}, which has no manifests"
        raise UserError(what, remedy=f"Set `symphony:backend: kubernetes` in {file}")
    return tuple(experiment["manifests"])


def _parameters(selected: selected_stack.SelectedStack) -> RunRequest:
    """Return the request with the origin of the program's parameters: the command line, or the file."""
    own = f"{selected.name.project}:"
    unquoted = settings_reader.unquoted(selected.config_file)
    return RunRequest(
        parameters=tuple(key.removeprefix(own) for key in selected.overrides if key.startswith(own)),
        unquoted={key.removeprefix(own): text for key, text in unquoted.items() if key.startswith(own)},
    )


def _preview(
    selected: selected_stack.SelectedStack,
    request: RunRequest,
    output: ProgramOutput | None,
    *,
    program: Program | None = None,
    fetch_plugins: bool = False,
) -> ReportedDeclaration:
    """Return the declaration of the program in one preview."""
    declared = ReportedDeclaration()
    with selected_stack.ensure_stack(selected):
        with engine_run("preview", selected, request, program=program, fetch_plugins=fetch_plugins) as run:
            for event in run:
                declared.take(event)
                if output is not None:
                    output.take(event)
        declared.check()
        errors.check(run.outcome)
        declared.require_declaration(selected.name.stack)
    return declared


def engine_run(
    verb: Verb,
    selected: selected_stack.SelectedStack,
    request: RunRequest,
    options: Sequence[str] = (),
    *,
    program: Program | None = None,
    fetch_plugins: bool = False,
    extra: Mapping[str, str] | None = None,
) -> Run:
    """Return an engine run of the program of the project, or of a script's program."""
    # The engine stores the settings that a script passes with the stack, where `symphony` reads them later.
    # Defaults, and settings that are stored already, are not passed.
    defaults = {"symphony:backend": registry.DEFAULT, "symphony:server": "default"}
    known = {**defaults, **selected.config} if program else {}
    changed = {key: value for key, value in selected.overrides.items() if known.get(key) != value}
    return Run(
        verb,
        selected.workspace,
        selected.name.stack,
        program=None if program is None else partial(program, request),
        extra={**({} if program else request.environment), **(extra or {})},
        options=[*options, *(f"--config={key}={value}" for key, value in changed.items())],
        fetch_plugins=fetch_plugins,
    )


class ReportedDeclaration:
    """The declaration of the program of a run, collected from the events of the engine."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._experiment: Component | None = None
        self._groups: dict[str, Component] = {}
        self._processes: dict[str, Component] = {}
        self._resources: dict[str, Step] = {}
        self._error: SymphonyError | None = None
        self.makes_cluster = False
        self.files: Mapping[str, str] = {}
        self.parameters: Mapping[str, Mapping[str, Any]] = {}
        self.patience = PATIENCE

    def take(self, event: Event) -> None:
        """Collect what an event tells."""
        match event:
            case RunRestarted():
                self._clear()
            case Report(facts=facts):
                self._error = self._error or error_in(facts)
                self.files = facts.get("program", self.files)
                self.parameters = facts.get("parameters", self.parameters)
                self.patience = facts.get("patience", self.patience)
                self.makes_cluster = self.makes_cluster or "cluster" in facts
            case Started(step=step) | Finished(step=step) if step.op in _KINDS and cluster.name_of(step):
                self._resources[step.urn] = step
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
        """Return whether the whole experiment is known."""
        paths = self._experiment.new["processes"] if self._experiment else ()
        return self._experiment is not None and all(path in self._processes for path in paths)

    @property
    def components(self) -> Components:
        """The components of the experiment, in the order of their declaration."""
        assert self._experiment is not None, "an experiment is declared"
        paths = self._experiment.new["processes"]
        processes = {path: self._processes[path] for path in paths if path in self._processes}
        return Components(self._experiment, self._groups, processes)

    @property
    def resource_changes(self) -> tuple[ResourceChange, ...]:
        """The changes of the resources of a cluster."""
        return tuple(
            ResourceChange(cluster.name_of(step), _KINDS[step.op], _why(step))
            for step in self._resources.values()
        )

    def check(self) -> None:
        """Raise the error that the program reported; call it once the engine has released its lock."""
        if self._error is not None:
            raise self._error

    def require_declaration(self, stack: str) -> None:
        """Raise UserError if the program ran to its end without an experiment or a cluster."""
        if not (self.is_declared or self.makes_cluster):
            raise UserError(
                f"the program of {stack} launches no experiment",
                remedy='Declare one in it: "with Experiment(...) as experiment:"',
            )


def _why(step: Step) -> str:
    if step.op == "replace" and not step.changed:
        return "the cluster is replaced"
    return ", ".join(step.changed) if step.op in ("update", "replace") else ""


class RecordedStack:
    """A stack before a run, with which the declaration of the program is compared.

    A run that restarts only some processes names them in `only`. Any other replaces the resources `replaced`.
    """

    def __init__(self, stack: stacks.Stack, only: Sequence[str] = ()) -> None:
        self.stack = stack
        self._only = only
        failed = stack.observer().restart_reasons(stack.recorded) if stack.recorded else {}
        # The equal workers of failed processes: if they have ended, they would not start again by themselves,
        # and the restarted ones would wait for them.
        workers = {} if only else stack.equal_workers(failed)
        self.replaced = stack.urns_of(workers) if workers else []
        self._restart_reasons = (
            dict.fromkeys(only, "asked for")
            if only
            else {**{path: f"restarts with {leader}" for path, leader in workers.items()}, **failed}
        )

    @cached_property
    def _completed_paths(self) -> set[str]:
        statuses = self.stack.statuses()
        known = () if isinstance(statuses, SymphonyError) else statuses
        return {status.path for status in known if status.state == "completed"}

    def request(self, selected: selected_stack.SelectedStack, *, manifests: bool = False) -> RunRequest:
        """Return what the program must know of the stack."""
        processes = self.stack.processes.values()
        experiment, declared = self.stack.experiment, self.stack.declared_processes
        return msgspec.structs.replace(
            _parameters(selected),
            runs_on=self.stack.backend,
            recorded=tuple(sorted(str(process["uid"]) for process in processes if process.get("uid"))),
            restart={path: digest_of_supervision(declared.get(path, {})) for path in self._only} or None,
            experiment=experiment.urn if experiment else "",
            manifests=manifests,
            images=origin.images if (origin := kept_code.origin(selected.workspace.folder)) else {},
        )

    def changes_to(self, selected: selected_stack.SelectedStack, program: ReportedDeclaration) -> AnyPlanned:
        """Return the changes from the state to the declaration of a program."""
        stack, project = selected.name.stack, selected.workspace.project
        if not program.is_declared:
            return ResourcesPlanned(stack, project, program.resource_changes)
        components = program.components
        experiment = components.experiment.new
        recorded = self.stack.recorded if self.stack.backend == experiment["backend"] else None
        processes = recorded.processes.items() if recorded else ()
        fingerprints = {path: str(process.get("fingerprint")) for path, process in processes}
        reasons = self._restart_reasons if recorded else {}
        rows = changes(fingerprints, components, reasons, _settings_of_other_backends(experiment["backend"]))
        if self._only:
            rows = tuple(row if row.path in self._only else Change(row.path, "keep") for row in rows)
        rows = with_followers(rows, components, lambda path: path in self._completed_paths)
        groups = [group.new for group in components.groups.values()]
        whole_plan = whole(experiment, [process.new for process in components.processes.values()], groups)
        unused = (Unused(row["setting"], tuple(row["made_by"])) for row in experiment["unused"])
        return Planned(
            stack=stack,
            project=project,
            plan=whole_plan,
            changes=rows,
            unused=tuple(map(str, unused)),
            now=len(fingerprints),
            images=image_changes(self.stack.resources, whole_plan["images"], components.code_sets),
            manifests=tuple(experiment.get("manifests", ())),
            code=components.new_code,
            program=program.files,
            parameters=program.parameters,
            folder=experiment["folder"],
        )


def _settings_of_other_backends(backend: str) -> frozenset[str]:
    own = registry.get(backend).settings
    others = {setting for row in registry.every() for setting in row.settings} - own
    mounts = set[str]() if any(setting.startswith("mount_") for setting in own) else {"mounts"}
    return frozenset(others | mounts)


def image_changes(
    resources: Iterable[Resource], planned: Sequence[Mapping[str, Any]], known: CodeSets
) -> tuple[ImageChange, ...]:
    """Return the planned images that differ from those in the state, in the order of the plan.

    `known` has the files of the digests of both.
    """
    recorded = {resource.name: resource for resource in resources if resource.type == IMAGE}
    rows = (_image_change(image, recorded.get(image["name"]), known) for image in planned)
    return tuple(row for row in rows if row is not None)


def _image_change(image: Mapping[str, Any], before: Resource | None, known: CodeSets) -> ImageChange | None:
    reasons = _reasons(before.inputs if before else None, image["inputs"], known)
    if pinned := str(image["inputs"].get("pinned") or ""):
        is_same = before is not None and not reasons and before.outputs.get("image") == pinned
        return (
            None if is_same else ImageChange(image["name"], pinned, ("of an earlier run",), needs_build=False)
        )
    return ImageChange(image["name"], image["reference"], reasons) if reasons else None


def _reasons(before: Mapping[str, Any] | None, after: Mapping[str, Any], known: CodeSets) -> tuple[str, ...]:
    if before is None:
        return ("new",)
    if before.get("repository") != after["repository"]:
        return (f"repository: {before.get('repository')} -> {after['repository']}",)
    if before.get("identity") == after["identity"]:
        # The experiment may have another name.
        return () if before.get("tag") == after["tag"] else ("another tag",)
    old: Mapping[str, str] = before.get("parts") or {}
    new: Mapping[str, str] = after["parts"]
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    reasons = [name for name in names if name != "files"]
    if "files" in names:
        changed = changed_names(str(old.get("files")), new["files"], known)
        others = [
            name for name in changed or () if name != after["dockerfile"] or "Dockerfile" not in reasons
        ]
        if others:
            reasons.append(f"{count(len(others), 'file')}: {and_more(others, _MOST_FILES)}")
        elif not changed:
            reasons.append("files")
    return tuple(reasons)
