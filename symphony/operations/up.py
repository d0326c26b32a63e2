"""Brings an experiment up, or restarts processes, with a run of the engine; yields the events of that run."""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from symphony import files
from symphony.backends import registry
from symphony.backends.observe import LocalObserver, ProcessStatus
from symphony.engine import errors, workspace
from symphony.engine.run.events import Diagnostic, Failed, Finished, Note, Outcome, Started
from symphony.engine.run.run import Run
from symphony.errors import SymphonyError, UserError
from symphony.operations import cluster, process, runs, selected_stack, sources, stacks
from symphony.operations.plan import (
    IMAGE,
    Planned,
    Program,
    ProgramOutput,
    RecordedStack,
    ReportedDeclaration,
    engine_run,
)
from symphony.operations.selected_stack import SelectedStack
from symphony.operations.stacks import path_of
from symphony.plan.names import listed
from symphony_docker import progress

State = Literal[
    "working", "stopping", "started", "restarted", "stopped", "failed",
    "created", "updated", "replaced", "deleted", "pushed",
]  # fmt: skip
# What to show when an operation of the engine on a process has ended, and on a resource of a cluster.
_DONE: dict[str, State] = {
    "create": "started",
    "update": "restarted",
    "delete": "stopped",
    "create-replacement": "restarted",
}
_DONE_TO_CLUSTER: dict[str, State] = {
    "create": "created",
    "update": "updated",
    "create-replacement": "replaced",
    "delete": "deleted",
}
_CANCELLED = re.compile("cancell?ed")
_BEGUN = re.compile(r"\* (urn:\S+), interrupted while")


class Progress(msgspec.Struct, frozen=True):
    """The progress of a process, of a group in one pod, of an image as `image NAME`, or of a resource.

    Attributes:
        note: Why a process ends late or was killed; for an image, the step of its build or push.
        share: The transferred share of an image, 0 to 1; -1 if unknown.
        size: The transferred size in words.
    """

    path: str
    state: State
    seconds: float = 0.0
    note: str = ""
    share: float = -1.0
    size: str = ""


class Remark(msgspec.Struct, frozen=True):
    """A remark about the run, for the user."""

    text: str


class Watched(msgspec.Struct, frozen=True):
    """The statuses of all processes, after the run and while processes still start."""

    statuses: tuple[ProcessStatus, ...]


class Ended(msgspec.Struct, frozen=True):
    """The end of a launch; str() gives a summary of one line.

    Attributes:
        stack: The name of the stack.
        statuses: The statuses of all processes.
        seconds: The duration.
        chain: The processes that waited for one another and took longest, with the seconds that each took to
            become ready or to complete.

    Example:
        print(Cluster.new("tmux").launch(experiment))
    """

    stack: str
    statuses: tuple[ProcessStatus, ...]
    seconds: float
    chain: tuple[tuple[str, float], ...] = ()

    @property
    def troubled(self) -> tuple[ProcessStatus, ...]:
        """The processes that are failed, lost, blocked or unknown, or wait for anything but a process."""
        return tuple(status for status in self.statuses if not _is_well(status))

    @property
    def has_begun(self) -> bool:
        """Return whether any process has begun; a lost one that never restarted may not have."""
        return any(s.state not in ("waiting", "blocked", "lost") or s.restarts for s in self.statuses)

    def __str__(self) -> str:
        counts = Counter(status.state for status in self.statuses)
        total, running, completed = len(self.statuses), counts.pop("running", 0), counts.pop("completed", 0)
        if completed == total:
            return f"{self.stack} has completed: {completed} of {total}, in {self.seconds:.1f} s."
        others = [f"{completed} completed"] if completed else []
        others += [f"{number} {state}" for state, number in sorted(counts.items())]
        not_ready = sum(1 for status in self.statuses if status.state == "running" and not status.ready)
        others += [f"{not_ready} not ready"] * bool(not_ready)
        parts = ", ".join([f"{running} of {total} running", *others])
        return f"{self.stack}{'' if counts else ' is up'}: {parts}, in {self.seconds:.1f} s."


class ResourcesEnded(msgspec.Struct, frozen=True):
    """The end of an `up` of a stack that creates a cluster."""

    stack: str
    resources: int
    seconds: float


UpEvent = Planned | Progress | Remark | Watched | Ended | ResourcesEnded


def _is_well(status: ProcessStatus) -> bool:
    waits = status.state == "waiting" and bool(status.waits_for)
    # The supervisor stops processes at the end of the experiment: a primary failed, or a limit was reached.
    return waits or status.state in ("running", "completed", "stopped")


def up(
    selected: SelectedStack,
    output: ProgramOutput | None = None,
    *,
    program: Program | None = None,
    restart: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Iterator[UpEvent]:
    """Run the program, apply its changes, watch the processes start; yield plan, progress and end.

    Args:
        selected: The stack.
        output: Gets the events, for the lines that the program prints.
        program: The program of a script, in place of the project's.
        restart: The processes to restart, and no others; empty for a normal `up`.
        options: Options of the engine.

    Raises:
        PlanError: The declaration has problems; nothing was started.
        SymphonyError: The engine or a provider failed.
    """
    recorded = RecordedStack(selected_stack.recorded_stack(selected), restart)
    cluster.resume(selected)
    verb = "restart" if restart else "up"
    from_script = selected.workspace.hidden or program is not None
    recording = _recording(selected, recorded.stack, verb, from_script=from_script)
    options = options or [f"--replace={urn}" for urn in recorded.replaced]
    start = partial(engine_run, "up", selected, recorded.request(selected), options, program=program)
    statuses, trouble = (), ""
    try:
        for event in _up(selected, recorded, recording, start, output, verb):
            statuses = event.statuses if isinstance(event, (Watched, Ended)) else statuses
            yield event
    except SymphonyError as error:
        trouble = error.what
        raise
    finally:
        recording.end(statuses, trouble)


def _recording(
    selected: SelectedStack, stack: stacks.Stack, command: str, *, from_script: bool
) -> runs.Recording:
    config = {**selected.config, **selected.overrides}
    secret = [key for key, setting in config.items() if isinstance(setting, workspace.Secret)]
    project = selected.workspace
    return runs.Recording(stack, command, project.folder, config, secret, from_script=from_script)


def _up(
    selected: SelectedStack,
    recorded: RecordedStack,
    recording: runs.Recording,
    start: Callable[..., Run],
    output: ProgramOutput | None,
    verb: str,
) -> Iterator[UpEvent]:
    """Yield the events of the run, then those of its processes that start."""
    planned: Planned | None = None
    done: set[str] = set()
    cancelled: set[str] = set()
    owners: dict[str, str] = {}
    program = ReportedDeclaration()
    fetches = selected_stack.fetches_plugins(selected, recorded.stack.backend)
    # Unlike in TMPDIR, symphony later removes this folder if the process is killed.
    folder = files.process_folder()
    with (
        selected_stack.ensure_stack(selected, changes=True),
        tempfile.TemporaryDirectory(dir=folder) as images,
    ):
        steps = Path(images) / "progress"
        reports = progress.Reader(steps)
        extra = {progress.VARIABLE: str(steps)}
        with start(fetch_plugins=fetches, extra=extra) as run:
            for event in run:
                for report in reports.new():
                    share = report.done / report.total if report.transferred else -1.0
                    yield Progress(
                        f"image {report.image}", "working", 0.0, report.step, share, report.transferred
                    )
                if output is not None:
                    output.take(event)
                program.take(event)
                if isinstance(event, (Started, Failed)) and (owner := path_of(event.step)):
                    owners[event.step.urn] = owner
                if planned is None and program.is_declared:
                    plan = recorded.changes_to(selected, program)
                    assert isinstance(plan, Planned)
                    planned = plan
                    yield planned
                if isinstance(event, Started) and not event.preview:
                    # Only now does the engine hold the lock of the stack.
                    recording.mark_changes()
                if planned is not None and recording.has_changes:
                    yield from map(Remark, _begin_record(recording, planned, program))
                if isinstance(event, Diagnostic) and _CANCELLED.search(event.message):
                    cancelled.add(event.urn)
                news = _progress_or_remark(event, cancelled)
                if news is not None and not _restarts_nothing(event, planned):
                    if isinstance(news, Progress) and news.state not in ("working", "failed"):
                        done.add(news.path)
                    yield news
        program.check()
        _check(run.outcome, planned, done, verb, owners)
        program.require_declaration(selected.name.stack)
    if planned is None:
        resources = sum(1 for change in program.resource_changes if change.kind != "delete")
        yield ResourcesEnded(selected.name.stack, resources, run.outcome.seconds)
        return
    observer = registry.get(planned.backend).observer
    if isinstance(observer, LocalObserver):
        paths = [str(process["path"]) for process in planned.plan["processes"]]
        if recorded.stack.state is not None and recorded.stack.state.pending:
            # A killed run leaves pending operations: it may have started processes that no state records.
            observer.stop_removed(recorded.stack.owner, paths)
        observer.order_windows(recorded.stack.owner, paths)
    for event in _watch_start(selected, run.outcome.seconds, program.patience):
        if isinstance(event, Ended):
            yield from map(Remark, _changed_code(selected, planned, done))
        yield event


def _changed_code(selected: SelectedStack, planned: Planned, started: Collection[str]) -> Iterator[str]:
    """Yield a remark if code changed while processes started, which may have read either version."""
    processes = [p for p in planned.plan["processes"] if p["code"] and p["path"] in started]
    # With images, the code of a process is that of its image.
    if not processes or "image" in registry.get(planned.backend).settings:
        return
    before = sources.from_plan(selected.workspace, planned)
    now = before.now().state
    code = before.state.keys() - {*before.program}
    if changed := sorted(file for file in code if now.get(file) != before.state[file]):
        names = listed([process["path"] for process in processes], 3)
        again = f"`symphony restart {selected.name.stack}` starts all again"
        yield f"{listed(changed, 3)} changed while {names} started, with the old or the new version: {again}"


def _begin_record(recording: runs.Recording, planned: Planned, program: ReportedDeclaration) -> Iterator[str]:
    """Begin the record of a run that changes something; yield the error if it cannot be written."""
    if planned.changes_nothing or recording.has_begun:
        return
    components = program.components
    members = {"groups": components.groups, "processes": components.processes}
    declared = {kind: {name: part.new for name, part in parts.items()} for kind, parts in members.items()}
    changed = [f"{change.path}: {change.why}" for change in planned.changes if change.kind != "keep"]
    changed += [*map(str, planned.images), *planned.plan["changed_files"]]
    content = {**planned.to_json(), "declared": {"experiment": components.experiment.new, **declared}}
    if trouble := recording.begin(changed, content):
        yield trouble


def _watch_start(selected: SelectedStack, seconds: float, patience: float) -> Iterator[Watched | Ended]:
    """Yield the statuses while processes start, then the end; seconds: the duration of the run before."""
    began = time.monotonic() - seconds
    statuses: tuple[ProcessStatus, ...] = ()
    waited, times = False, _Times(began)
    for statuses in _statuses_until_settled(selected, patience):
        # Also yield the last statuses, in which waiting processes run.
        waited = waited or any(status.state == "waiting" for status in statuses)
        if waited:
            yield Watched(statuses)
        times.see(statuses, time.monotonic())
    ended = Ended(selected.name.stack, statuses, time.monotonic() - began, times.longest_chain())
    if ended.troubled or not statuses:
        process.require_undisturbed(selected.name)
    yield ended


class _Times:
    """The moments at which processes became ready or completed, and what they waited for before."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._done: dict[str, float] = {}
        self._waits: dict[str, set[str]] = {}

    def see(self, statuses: Sequence[ProcessStatus], now: float) -> None:
        for status in statuses:
            waits = {wait.rpartition(" (")[0] for wait in status.waits_for}
            self._waits.setdefault(status.path, set()).update(waits)
            if status.ready or status.state == "completed":
                self._done.setdefault(status.path, now)

    def longest_chain(self) -> tuple[tuple[str, float], ...]:
        """Return the chain that ended last, first process first, with the seconds that each took."""
        chain: list[tuple[str, float]] = []
        path = max(self._done, key=self._done.__getitem__, default=None)
        while path is not None and (dependent := self._dependent(path)):
            path = dependent
        while path is not None:
            before = [other for other in self._waits.get(path, ()) if other in self._done]
            last = max(before, key=self._done.__getitem__, default=None)
            chain.append((path, self._done[path] - (self._began if last is None else self._done[last])))
            path = last
        return tuple(reversed(chain))

    def _dependent(self, path: str) -> str | None:
        """Return a process that waited for this one and was done at the same moment, if there is one."""
        done = self._done[path]
        return next(
            (
                other
                for other, before in self._waits.items()
                if path in before and self._done.get(other) == done
            ),
            None,
        )


def _check(
    outcome: Outcome, planned: Planned | None, done: set[str], verb: str, owners: Mapping[str, str]
) -> None:
    """Raise the error of a run that failed, or that was interrupted with the changes that are left to make.

    owners: The process or group of every resource that the run changed, by its urn.
    """
    if outcome.result == "interrupted" and outcome.is_terminated:
        raise errors.terminated(outcome, verb)
    if outcome.result == "interrupted" and planned is None and verb == "restart":
        remedy = f"Run `symphony restart {outcome.stack}` again"
        raise errors.Interrupted(f"restart of {outcome.stack} was interrupted", remedy=remedy)
    if outcome.result != "interrupted" or planned is None:
        errors.check(outcome, owners)
        return
    changed = [change.path for change in planned.changes if change.kind != "keep" and not change.follows]
    left = [path for path in changed if path not in done and path.rpartition("/")[0] not in done]
    names = f": {listed(left, 5)}" if left else ""
    summary = f"{len(changed) - len(left)} of {len(changed)} changes are done and {len(left)} left{names}"
    command = " ".join([verb, outcome.stack, *(left if verb == "restart" else ())])
    raise errors.Interrupted(
        f"{verb} of {outcome.stack} was interrupted, {summary}",
        remedy=f"Run `symphony {command}` to finish",
    )


def _statuses_until_settled(selected: SelectedStack, patience: float) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses of a stack whenever one changes, until no further change is expected."""
    stack = stacks.read(selected.name)
    if stack.recorded is None or stack.backend is None:
        return
    try:
        yield from stack.observer().watch(stack.recorded, patience=patience)
    except SymphonyError as error:
        what = f"{stack.display_name} was started, but its state cannot be read: {error.what}"
        raise SymphonyError(what, where=error.where, remedy=error.remedy) from error


def progress_of(event: object) -> Progress | None:
    """Return the progress of a process, an image or a resource of a cluster that an event reports."""
    match event:
        case Started(step=step, preview=False) if path := path_of(step):
            return Progress(path, "working") if step.op in _DONE or step.op == "delete-replaced" else None
        case Started(step=step, preview=False) if name := cluster.name_of(step):
            return Progress(name, "working") if step.op in _DONE_TO_CLUSTER else None
        case Finished(step=step, seconds=seconds, preview=False):
            if step.type == IMAGE:
                state: State = "updated" if step.new.get("pinned") else "pushed"
                is_done = step.op in ("create", "update")
                return Progress(f"image {step.name}", state, seconds) if is_done else None
            path, states = path_of(step), _DONE
            if not path:
                path, states = cluster.name_of(step), _DONE_TO_CLUSTER
            return Progress(path, states[step.op], seconds) if path and step.op in states else None
        case Failed(step=step, seconds=seconds):
            image = f"image {step.name}" if step.type == IMAGE else ""
            path = image or path_of(step) or cluster.name_of(step)
            return Progress(path, "failed", seconds) if path else None
        case _:
            return None


def _progress_or_remark(event: object, cancelled: Collection[str] = ()) -> Progress | Remark | None:
    """Return the progress or the remark that an event reports.

    `cancelled` has the urns of operations that an interrupted run cancelled, which may have completed.
    """
    match event:
        case Failed(step=step) if step.urn in cancelled and step.type != IMAGE and (path := path_of(step)):
            return Remark(f"{path}: interrupted while it changed; the next `up` completes it")
        case Note(text=text):
            return Remark(text)
        case Diagnostic(severity="warning", message=message, urn=urn, ephemeral=False):
            if errors.UNREACHABLE_CLUSTER.search(message) or errors.NO_FINALIZERS in message:
                return None
            of_resource = urn and "pulumi:pulumi:Stack::" not in urn
            name = f"{_resource_name(urn)}: " if of_resource else ""
            return Remark(_interrupted_operations(message) or f"{name}{message.strip()}")
        case _:
            return progress_of(event)


def _restarts_nothing(event: object, planned: Planned | None) -> bool:
    """Return whether an update changes a process without a restart, such as its grace period."""
    if planned is None or not isinstance(event, (Started, Finished)) or event.step.op != "update":
        return False
    return path_of(event.step) in planned.kept


def _interrupted_operations(message: str) -> str:
    """Return the engine's warning about an interrupted run in one line; empty for any other warning."""
    begun = dict.fromkeys(_BEGUN.findall(message))
    if not begun:
        return ""
    foreign = ", ".join(_resource_name(urn) for urn in begun if "symphony:index:" not in urn)
    stack = next(iter(begun)).removeprefix("urn:pulumi:").partition("::")[0]
    refresh = f'`eval "$(symphony env)"; pulumi refresh -s {stack}` repairs the state of {foreign}'
    remedy = refresh if foreign else "this run completes it"
    return f"an earlier run was interrupted at {', '.join(map(_resource_name, begun))}: {remedy}"


def _resource_name(urn: str) -> str:
    return urn.rpartition("::")[2]


# The types of resources that processes use, and that a restart may change.
_USED = ("Image", "Secret", "ConfigMap")
# The types of an experiment's own resources that a restart may create. On Kubernetes, the supervisor ends
# minutes after all pods.
_MADE = ("Secret", "ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Job")


class Restart(msgspec.Struct, frozen=True):
    """The processes to restart.

    Attributes:
        named: The processes that the user named.
        workers: The other equal workers.
        sharing: Other processes in the same pods.
        urns: The resources to replace.
        targets: More resources that the run may change: images, secrets and components of the processes.
    """

    selected: SelectedStack
    named: tuple[str, ...]
    workers: tuple[str, ...]
    sharing: tuple[str, ...]
    urns: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.named, *self.workers, *self.sharing)


def prepare(stack: stacks.Stack, words: Sequence[str]) -> Restart:
    """Prepare the restart of the processes that names, groups and patterns stand for; by default of all.

    Raises:
        UserError: There is no such process, or its program is not on this machine.
    """
    stack, recorded = stacks.running(stack)
    paths = list(recorded.processes)
    named = stacks.match_processes(words, paths)
    workers = tuple(stack.equal_workers(named))
    urns = stack.urns_of((*named, *workers))
    # The groups whose processes share a pod.
    groups = {path_of(resource) for resource in stack.resources if resource.urn in urns}
    others = (path for path in paths if path not in named and path not in workers)
    sharing = tuple(path for path in others if path.rpartition("/")[0] in groups)
    restarted = {*named, *workers, *sharing}
    targets = [
        resource.urn
        for resource in stack.resources
        if resource.type.rpartition(":")[2] in _USED
        or (resource.type == stacks.PROCESS and resource.name in restarted)
    ]
    if stack.experiment is not None:
        children = stack.experiment.urn.rpartition("::")[0]
        targets += [f"{children}$*:*:{kind}::*" for kind in _MADE]
    return Restart(_with_program(stack), tuple(named), workers, sharing, tuple(urns), tuple(targets))


def restart(wanted: Restart, output: ProgramOutput | None = None) -> Iterator[UpEvent]:
    """Run the program, replace just these processes, and yield the events of `up`."""
    options = [f"--target={urn}" for urn in wanted.targets]
    options += [f"--target-replace={urn}" for urn in wanted.urns]
    try:
        yield from up(wanted.selected, output, restart=wanted.paths, options=options)
    except SymphonyError as error:
        if stacks.read(wanted.selected.name).recorded is None:
            stack = wanted.selected.name.stack
            remedy = f"Start it with `symphony up {stack}`"
            raise SymphonyError(f"{stack} was deleted while it was restarting", remedy=remedy) from error
        raise


def _with_program(stack: stacks.Stack) -> SelectedStack:
    """Return the stack with the program from which it was started."""
    folder = stacks.folder(stack)
    if stack.is_of_script:
        raise UserError(
            f"{stack.display_name} was launched by a script, which `symphony restart` cannot run",
            where=folder,
            remedy="To restart changed processes, use launch(experiment, force=True) in the script;"
            f" to restart all, run `symphony delete {stack.display_name}` and then the script",
        )
    project = workspace.find_usable(Path(folder)) if folder else None
    if project is None or project.project != stack.name.project:
        raise UserError(
            f"the program of {stack.display_name} no longer exists",
            where=folder,
            remedy=f"If its project was moved, run `symphony up {stack.display_name}` there;"
            f" if it was deleted, `symphony delete {stack.display_name}` ends the experiment",
        )
    workspace.require_virtualenv(project)
    return SelectedStack(stack.name, project)
