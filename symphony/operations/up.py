"""Brings an experiment up: one engine run, told as what happens to each process."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from symphony.backends import registry
from symphony.backends.observe import LocalObserver, ProcessStatus
from symphony.engine import errors
from symphony.engine.run.events import Diagnostic, Failed, Finished, Note, Outcome, Started, Step
from symphony.engine.state.file_store import Resource
from symphony.errors import SymphonyError
from symphony.operations import cluster, stack_target, stacks
from symphony.operations.cluster import ClusterEnded
from symphony.operations.plan import Before, MakeRun, Planned, Program, no_experiment, project_run
from symphony.operations.program_output import ProgramOutput
from symphony.operations.stack_target import StackTarget
from symphony.plan.names import listed
from symphony_docker import progress

_OWNERS = ("symphony:index:Process::", "symphony:index:ProcessGroup::")
_DONE = {
    "create": "started",
    "update": "restarted",
    "delete": "stopped",
    "create-replacement": "restarted",
}
_DONE_TO_CLUSTER = {
    "create": "created",
    "update": "updated",
    "create-replacement": "replaced",
    "delete": "deleted",
}
_IMAGE = re.compile(r"\w*Image\w*: ")
_BUILT = "pulumi-python:dynamic/symphony_docker:Image"
_CANCELLED = re.compile("cancell?ed")
_BEGUN = re.compile(r"\* (urn:\S+), interrupted while")


@dataclass(frozen=True)
class Progress:
    """One process, or a group that shares a pod, changes; or an image does, as `image NAME`.

    state: `working` or `stopping`, then `started`, `restarted`, `stopped` or `failed`; of a resource of a
           cluster `created`, `updated`, `replaced` or `deleted`; of an image `pushed`.
    note:  what keeps it, or did.
    share: of what an image sends or fetches now, 0 to 1, and size the same in words; -1 where none is known.
    """

    path: str
    state: Literal[
        "working", "stopping", "started", "restarted", "stopped", "failed",
        "created", "updated", "replaced", "deleted", "pushed",
    ]  # fmt: skip
    seconds: float = 0.0
    note: str = ""
    share: float = -1.0
    size: str = ""


@dataclass(frozen=True)
class Remark:
    """Something to tell in one line on the way."""

    text: str


@dataclass(frozen=True)
class Watched:
    """The run is over and some processes are not there yet, or were not just now: every one as it is."""

    statuses: tuple[ProcessStatus, ...]


@dataclass(frozen=True)
class Ended:
    """How a launch ended; as text, in a line.

    print(cluster.launch(experiment))

    stack: its name. statuses: every process as it is now. seconds: how long that took.
    """

    stack: str
    statuses: tuple[ProcessStatus, ...]
    seconds: float

    @property
    def troubled(self) -> tuple[ProcessStatus, ...]:
        """The processes that neither run, nor came to a good end, nor wait for another that does."""
        return tuple(status for status in self.statuses if not _is_well(status))

    @property
    def common(self) -> str:
        """The one reason for which none of several runs, in words; empty where there are more."""
        causes = {_cause(each) for each in self.statuses}
        running = any(each.state in ("running", "completed") for each in self.statuses)
        return "" if running or len(self.statuses) < 2 or len(causes) > 1 else causes.pop()

    @property
    def has_begun(self) -> bool:
        """Whether any process has ever run."""
        return any(each.state not in ("waiting", "lost") or each.restarts for each in self.statuses)

    def __str__(self) -> str:
        counts = Counter(status.state for status in self.statuses)
        total, running, completed = len(self.statuses), counts.pop("running", 0), counts.pop("completed", 0)
        if not (running or completed):
            common = f": all {self.common}" if self.common else ""
            return f"{self.stack}: 0 of {total} run{common}, after {self.seconds:.1f} s."
        if completed == total:
            return f"{self.stack} has completed: {completed} of {total}, in {self.seconds:.1f} s."
        others = [f"{completed} completed"] if completed else []
        others += [f"{number} {state}" for state, number in sorted(counts.items())]
        parts = ", ".join([f"{running} of {total} running", *others])
        return f"{self.stack}{'' if counts else ' is up'}: {parts}, in {self.seconds:.1f} s."


def _is_well(status: ProcessStatus) -> bool:
    waits = status.state == "waiting" and bool(status.waits_for)
    return waits or status.state in ("running", "completed")


def _cause(status: ProcessStatus) -> str:
    """Why a process does not run; of an image that is pulled again and again the same each time."""
    if status.state != "waiting":
        return f"{status.state}: {status.why}"
    image = _IMAGE.match(status.why)
    return f"wait for {status.why[image.end() :]}" if image else f"wait: {status.why}"


UpEvent = Planned | Progress | Remark | Watched | Ended | ClusterEnded

_project_run = partial(project_run, "up")


def up(
    target: StackTarget,
    make_run: MakeRun = _project_run,
    output: ProgramOutput | None = None,
    restart: Sequence[str] = (),
) -> Iterator[UpEvent]:
    """Run the program, change the backend, watch it come up; yields the plan, progress, then how it ended.

    output: told what the program prints.
    restart: the processes that are started again, by a run that leaves all else as it is; none: any `up`.

    PlanError: its problems, nothing was started. SymphonyError: the engine or a provider failed.
    """
    before = Before(stack_target.before(target), restart)
    cluster.resume(target)
    planned: Planned | None = None
    done: set[str] = set()
    cancelled: set[str] = set()
    owners: dict[str, str] = {}
    program = Program()
    fetches = stack_target.fetches_plugins(target, before.stack.backend)
    with stack_target.ensure_stack(target, changes=True), tempfile.TemporaryDirectory() as images:
        reports = progress.Reader(Path(images))
        extra = {progress.VARIABLE: images}
        with make_run(target, before.request(), fetch_plugins=fetches, extra=extra) as run:
            for event in run:
                for report in reports.new():
                    share = report.done / report.total if report.size else -1.0
                    yield Progress(f"image {report.image}", "working", 0.0, report.what, share, report.size)
                if output is not None:
                    output.take(event)
                program.take(event)
                if isinstance(event, (Started, Failed)) and (owner := path_of(event.step)):
                    owners[event.step.urn] = owner
                if planned is None and program.is_declared:
                    planned = before.planned(target.workspace, program)
                    yield planned
                if isinstance(event, Diagnostic) and _CANCELLED.search(event.message):
                    cancelled.add(event.urn)
                if (event_line := _event_line(event, cancelled)) is not None and not _goes_on(event, planned):
                    if isinstance(event_line, Progress) and event_line.state not in ("working", "failed"):
                        done.add(event_line.path)
                    yield event_line
        program.refuse()
        _check(run.outcome, planned, done, "restart" if restart else "up", owners)
        if planned is None and program.cluster is not None:
            yield ClusterEnded(target.name.stack, program.cluster, run.outcome.seconds)
            return
        if planned is None:
            raise no_experiment(target.name.stack)
    observer = registry.get(planned.backend).observer
    if isinstance(observer, LocalObserver):
        paths = [str(process["path"]) for process in planned.plan["processes"]]
        if before.stack.state is not None and before.stack.state.pending:
            # A run that was killed while the engine kept checkpoints: what was under way is in no state.
            observer.stop_removed(before.stack.owner, paths)
        observer.order_windows(before.stack.owner, paths)
    yield from _coming_up(target, run.outcome.seconds)


def _coming_up(target: StackTarget, seconds: float) -> Iterator[Watched | Ended]:
    """What is waited for, and how it ended; seconds: what the run took before."""
    began = time.monotonic() - seconds
    statuses: tuple[ProcessStatus, ...] = ()
    waited = False
    for statuses in _watched(target):
        # The last time as well: what was told to be waiting is there now.
        waited = waited or any(status.state == "waiting" for status in statuses)
        if waited:
            yield Watched(statuses)
    yield Ended(target.name.stack, statuses, time.monotonic() - began)


def _check(
    outcome: Outcome, planned: Planned | None, done: set[str], verb: str, owners: Mapping[str, str]
) -> None:
    """Raise the error of a run that failed; of an interrupted one, with what is left.

    owners: the process or group of each resource that the run changed, by its URN.
    """
    if outcome.result == "interrupted" and planned is None and verb == "restart":
        remedy = f"`symphony restart {outcome.stack}` tries again"
        raise errors.Interrupted(f"restart of {outcome.stack} was interrupted", remedy=remedy)
    if outcome.result != "interrupted" or planned is None:
        errors.check(outcome, lambda urn: owners.get(urn) or _name(urn))
        return
    wanted = [change.path for change in planned.changes if change.kind != "keep"]
    left = [path for path in wanted if path not in done and path.rpartition("/")[0] not in done]
    names = f": {listed(left, 5)}" if left else ""
    done_of = f"{len(wanted) - len(left)} of {len(wanted)} changes are done"
    again = " ".join([verb, outcome.stack, *(left if verb == "restart" else ())])
    raise errors.Interrupted(
        f"{verb} of {outcome.stack} was interrupted, {done_of} and {len(left)} left{names}",
        remedy=f"`symphony {again}` finishes it",
    )


def _watched(target: StackTarget) -> Iterator[tuple[ProcessStatus, ...]]:
    """Every process of a stack as it is now, again whenever that changes until nothing is to come."""
    stack = stacks.read(target.name)
    if stack.recorded is None or stack.backend is None:
        return
    try:
        yield from stack.observer().watch(stack.recorded, patience=target.settings.patience)
    except SymphonyError as error:
        what = f"{stack.shown} was started, and cannot be watched: {error.what}"
        raise SymphonyError(what, where=error.where, remedy=error.remedy) from error


def cluster_progress(event: object) -> Progress | None:
    """What happens to a resource of a cluster; None for any other event."""
    match event:
        case Started(step=step, preview=False) if (
            name := cluster.name_of(step)
        ) and step.op in _DONE_TO_CLUSTER:
            return Progress(name, "working")
        case Finished(step=step, seconds=seconds, preview=False) if name := cluster.name_of(step):
            state = _DONE_TO_CLUSTER.get(step.op)
            return Progress(name, state, seconds) if state else None  # pyright: ignore[reportArgumentType]
        case Failed(step=step, seconds=seconds) if name := cluster.name_of(step):
            return Progress(name, "failed", seconds)
        case _:
            return None


def _event_line(event: object, cancelled: Collection[str] = ()) -> Progress | Remark | None:
    """Return what an event tells; cancelled: the URNs of which an interrupted run does not know the end."""
    if (of_cluster := cluster_progress(event)) is not None:
        return of_cluster
    match event:
        case Finished(step=step, seconds=seconds, preview=False) if step.type == _BUILT:
            pushed = step.op in ("create", "update")
            return Progress(f"image {step.name}", "pushed", seconds) if pushed else None
        case Failed(step=step, seconds=seconds) if step.type == _BUILT:
            return Progress(f"image {step.name}", "failed", seconds)
        case Started(step=step, preview=False) if path := path_of(step):
            return Progress(path, "working") if step.op in _DONE or step.op == "delete-replaced" else None
        case Finished(step=step, seconds=seconds, preview=False) if path := path_of(step):
            state = _DONE.get(step.op)
            return Progress(path, state, seconds) if state else None  # pyright: ignore[reportArgumentType]
        case Failed(step=step) if (path := path_of(step)) and step.urn in cancelled:
            return Remark(f"{path}: interrupted while it changed; the next `up` goes on with it")
        case Failed(step=step, seconds=seconds) if path := path_of(step):
            return Progress(path, "failed", seconds)
        case Note(text=text):
            return Remark(text)
        case Diagnostic(severity="warning", message=message, urn=urn, ephemeral=False):
            if errors.UNREACHABLE_CLUSTER.search(message):
                return None
            of_resource = urn and "pulumi:pulumi:Stack::" not in urn
            return Remark(
                _unfinished(message) or (f"{_name(urn)}: " if of_resource else "") + message.strip()
            )
        case _:
            return None


def _goes_on(event: object, planned: Planned | None) -> bool:
    """Whether a resource gets settings that restart nothing, such as its grace, of a process that stays."""
    if planned is None or not isinstance(event, (Started, Finished)) or event.step.op != "update":
        return False
    return path_of(event.step) in planned.kept


def _unfinished(message: str) -> str:
    """What the engine's page on an interrupted run means here, in a line; empty for any other warning."""
    begun = dict.fromkeys(_BEGUN.findall(message))
    if not begun:
        return ""
    foreign = ", ".join(_name(urn) for urn in begun if "symphony:index:" not in urn)
    then = f"ask `pulumi refresh` what became of {foreign}" if foreign else "this one goes on with it"
    return f"an earlier run was interrupted at {', '.join(map(_name, begun))}: {then}"


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def path_of(step: Step | Resource) -> str:
    """The path of the process, or of the group, that a resource belongs to: it hangs under its component."""
    if step.type.startswith("symphony:"):
        return ""  # The component of a process hangs under that of its group.
    for owner in _OWNERS:
        _, result, path = step.parent.rpartition(owner)
        if result:
            return path
    return ""
