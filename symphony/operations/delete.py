"""Takes an experiment down, whole; cli/delete.py and Cluster call it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from symphony.backends.interface import observer_of
from symphony.engine import errors, workspace
from symphony.engine.events import Failed, Finished
from symphony.engine.run import Run
from symphony.operations import stacks
from symphony.operations.up import Progress, path_of
from symphony.plan.names import is_label, launched_name
from symphony.plan.worlds import DEFAULT, FETCHING


@dataclass(frozen=True)
class Deleted:
    """How a deletion ended: what was recorded, and what no state knew of."""

    stack: str
    processes: int
    strays: int
    seconds: float


def delete(stack: stacks.Stack) -> Iterator[Progress | Deleted]:
    """Destroy everything the stack made, and what an interrupted run left; yields progress, then the end."""
    stacks.refuse_other_host(stack)
    place = workspace.for_stack(stack.name)
    with Run("destroy", place, stack.name.stack, fetch_plugins=stack.world in FETCHING) as run:
        for event in run:
            if isinstance(event, (Finished, Failed)) and (path := path_of(event.step)):
                state = "stopped" if isinstance(event, Finished) else "failed"
                yield Progress(path, state, event.seconds)
    errors.check(run.outcome)
    yield Deleted(
        stack=stack.shown,
        processes=len(stack.recorded.processes) if stack.recorded else 0,
        strays=_reap(stack),
        seconds=run.outcome.seconds,
    )


def _reap(stack: stacks.Stack) -> int:
    """What a killed `up` started is not in the state: it is found by its mark."""
    name = stack.recorded.launched_as if stack.recorded else launched_name(stack.name.stack)
    return (
        observer_of(stack.world or DEFAULT).reap(stack.owner, name, stack.recorded) if is_label(name) else 0
    )
