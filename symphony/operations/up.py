"""Brings an experiment up: one engine run, told as what happens to each process; cli and Cluster call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from symphony.backends.interface import ProcessStatus, observer_of
from symphony.engine import errors
from symphony.engine.events import Diagnostic, Failed, Finished, Note, Started, Step
from symphony.engine.run import Outcome, Run
from symphony.operations import stacks, targets
from symphony.operations.handed import Inbox, inbox
from symphony.operations.plan import Planned, compared, no_experiment
from symphony.operations.targets import Target

_PROCESS = "symphony:index:Process::"
_DONE = {"create": "started", "update": "restarted", "delete": "stopped", "replace": "restarted"}


@dataclass(frozen=True)
class Progress:
    """One process changes: state is `starting`, then `started`, `restarted`, `stopped` or `failed`."""

    path: str
    state: Literal["working", "started", "restarted", "stopped", "failed"]
    seconds: float = 0.0


@dataclass(frozen=True)
class Remark:
    """Something to tell in one line on the way."""

    text: str


@dataclass(frozen=True)
class Ended:
    """How it ended: every process as it is now."""

    stack: str
    statuses: tuple[ProcessStatus, ...]
    seconds: float

    @property
    def troubled(self) -> tuple[ProcessStatus, ...]:
        """The processes that neither run nor came to a good end."""
        return tuple(status for status in self.statuses if status.state not in ("running", "completed"))

    def __str__(self) -> str:
        running = len(self.statuses) - len(self.troubled)
        return f"{self.stack} is up: {running} of {len(self.statuses)} running, in {self.seconds:.1f} s."


UpEvent = Planned | Progress | Remark | Ended
MakeRun = Callable[[Target, Inbox], Run]


def _project_run(target: Target, box: Inbox) -> Run:
    return Run("up", target.workspace, target.name.stack, extra=box.environment)


def up(target: Target, make_run: MakeRun = _project_run) -> Iterator[UpEvent]:
    """Run the program and change the world; yields the plan first, then progress, then how it ended.

    PlanError: its problems, nothing was started. SymphonyError: the engine or a provider failed.
    """
    before = stacks.read(target.name)
    stacks.refuse_other_host(before)
    planned: Planned | None = None
    done: set[str] = set()
    with targets.existing(target), inbox() as box:
        with make_run(target, box) as run:
            for event in run:
                if planned is None and (handed := box.take_new()) is not None:
                    planned = compared(target.name.stack, target.workspace, before, handed)
                    yield planned
                if (told := _told(event)) is not None:
                    if isinstance(told, Progress) and told.state not in ("working", "failed"):
                        done.add(told.path)
                    yield told
        if planned is None and (handed := box.take()) is not None:
            planned = compared(target.name.stack, target.workspace, before, handed)
            yield planned
        _check(run.outcome, planned, done)
        if planned is None:
            raise no_experiment(target.name.stack)
    yield Ended(target.name.stack, statuses_of(target), run.outcome.seconds)


def _check(outcome: Outcome, planned: Planned | None, done: set[str]) -> None:
    """Raise the one line that says why the run did not do its work; of a stopped one, what is left."""
    if outcome.result != "interrupted" or planned is None:
        errors.check(outcome)
        return
    wanted = [change.path for change in planned.changes if change.kind != "keep"]
    left = [path for path in wanted if path not in done]
    names = f": {', '.join(left[:5])}{', …' if len(left) > 5 else ''}" if left else ""
    raise errors.Interrupted(
        f"up of {outcome.stack} was interrupted, {len(wanted) - len(left)} of {len(wanted)} changes are done"
        f" and {len(left)} left{names}",
        remedy=f"`symphony up {outcome.stack}` finishes it",
    )


def statuses_of(target: Target) -> tuple[ProcessStatus, ...]:
    """Every process of a stack as it is now."""
    stack = stacks.read(target.name)
    if stack.recorded is None or stack.world is None:
        return ()
    (statuses,) = observer_of(stack.world).statuses([stack.recorded])
    return tuple(statuses)


def _told(event: object) -> Progress | Remark | None:
    match event:
        case Started(step=step, preview=False) if path := path_of(step):
            return Progress(path, "working") if step.op in _DONE else None
        case Finished(step=step, seconds=seconds, preview=False) if path := path_of(step):
            state = _DONE.get(step.op)
            return Progress(path, state, seconds) if state else None  # pyright: ignore[reportArgumentType]
        case Failed(step=step, seconds=seconds) if path := path_of(step):
            return Progress(path, "failed", seconds)
        case Note(text=text):
            return Remark(text)
        case Diagnostic(severity="warning", message=message):
            return Remark(message.strip())
        case _:
            return None


def path_of(step: Step) -> str:
    """The path of the process that a resource belongs to: it hangs under the process's component."""
    _, found, path = step.parent.rpartition(_PROCESS)
    return path if found else ""
