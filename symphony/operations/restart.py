"""Starts processes of an experiment again: a run of the engine that replaces their resources and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from symphony.engine import workspace
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.matching import match_processes
from symphony.operations.plan import project_run
from symphony.operations.program_output import ProgramOutput
from symphony.operations.stack_target import StackTarget
from symphony.operations.up import UpEvent, path_of, up

# Types of resources without whose change a process would not be what the program declares of it now.
_MADE_OF = ("Image", "Secret", "ConfigMap")


@dataclass(frozen=True)
class Restart:
    """What starts again: the processes that were named, those that share a pod with them, their resources.

    targets: what else of the state the run may change: what processes are made of, and their components.
    """

    target: StackTarget
    named: tuple[str, ...]
    sharing: tuple[str, ...]
    urns: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.named, *self.sharing)


def prepared(stack: stacks.Stack, given: Sequence[str]) -> Restart:
    """What a restart of some processes comes to; given: names, groups, patterns, none means all.

    UserError: there is no such process, or its program is not to be found on this machine.
    """
    stack = stacks.ensure_same_location(stack)
    if stack.recorded is None or stack.state is None:
        raise UserError(f"{stack.shown} is not up", remedy=f"Start it with `symphony up {stack.shown}`")
    paths = list(stack.recorded.processes)
    named = match_processes(given, paths)
    # By the process that a resource hangs under, or the group whose processes share it.
    owners = {each.urn: owner for each in stack.state.resources if (owner := path_of(each))}
    groups = {path.rpartition("/")[0] for path in named} & {*owners.values()}
    sharing = [path for path in paths if path.rpartition("/")[0] in groups and path not in named]
    urns = [urn for urn, owner in owners.items() if owner in named or owner in groups]
    restarted = {*named, *sharing}
    targets = [
        each.urn
        for each in stack.state.resources
        if each.type.rpartition(":")[2] in _MADE_OF
        or (each.type == "symphony:index:Process" and each.name in restarted)
    ]
    return Restart(_target(stack), tuple(named), tuple(sharing), tuple(urns), tuple(targets))


def restart(what: Restart, output: ProgramOutput | None = None) -> Iterator[UpEvent]:
    """Run the program, and replace just these processes; yields what `up` does."""
    options = [f"--target={urn}" for urn in what.targets]
    options += [f"--target-replace={urn}" for urn in what.urns]
    try:
        yield from up(what.target, partial(project_run, "up", options=options), output, what.paths)
    except SymphonyError as error:
        if stacks.read(what.target.name).recorded is None:
            stack = what.target.name.stack
            remedy = f"Start it with `symphony up {stack}`"
            raise SymphonyError(f"{stack} was deleted while it was restarting", remedy=remedy) from error
        raise


def _target(stack: stacks.Stack) -> StackTarget:
    """The stack with its program, which is where it was started from."""
    folder = stacks.folder(stack)
    place = workspace.find_usable(Path(folder)) if folder else None
    if place is None and stack.name.project == workspace.DEFAULT_PROJECT:
        raise UserError(
            f"{stack.shown} was launched by a script, which only you can run again",
            where=folder,
            remedy="In it, launch(experiment, force=True) restarts what changed;"
            f" after `symphony delete {stack.shown}` it starts all again",
        )
    if place is None or place.project != stack.name.project or not place.program.is_file():
        raise UserError(
            f"the program of {stack.shown} is not there any more",
            where=folder,
            remedy=f"Go to where its project is now, and run `symphony up {stack.shown}`",
        )
    workspace.require_virtualenv(place)
    return StackTarget(stack.name, place)
