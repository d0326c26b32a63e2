"""Restarts processes with a run of the engine that replaces only their resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from symphony.engine import workspace
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.operations.plan import ProgramOutput, project_run
from symphony.operations.selected_stack import SelectedStack
from symphony.operations.up import UpEvent, path_of, up

# The types of resources that processes use, and that a restart may change.
_USED = ("Image", "Secret", "ConfigMap")


@dataclass(frozen=True)
class Restart:
    """The processes to restart.

    Attributes:
        named: The processes that the user named.
        sharing: Other processes in the same pods.
        urns: The resources to replace.
        targets: More resources that the run may change: images, secrets and components of the processes.
    """

    selected: SelectedStack
    named: tuple[str, ...]
    sharing: tuple[str, ...]
    urns: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.named, *self.sharing)


def prepare(stack: stacks.Stack, words: Sequence[str]) -> Restart:
    """Prepare the restart of the processes that names, groups and patterns stand for; by default of all.

    Raises:
        UserError: There is no such process, or its program is not on this machine.
    """
    stack = stacks.ensure_same_location(stack)
    if stack.recorded is None or stack.state is None:
        raise stack.not_up()
    paths = list(stack.recorded.processes)
    named = stacks.match_processes(words, paths)
    # The process of a resource, or the group whose processes share it.
    owners = {resource.urn: owner for resource in stack.state.resources if (owner := path_of(resource))}
    groups = {path.rpartition("/")[0] for path in named} & {*owners.values()}
    sharing = [path for path in paths if path.rpartition("/")[0] in groups and path not in named]
    urns = [urn for urn, owner in owners.items() if owner in named or owner in groups]
    restarted = {*named, *sharing}
    targets = [
        resource.urn
        for resource in stack.state.resources
        if resource.type.rpartition(":")[2] in _USED
        or (resource.type == stacks.PROCESS and resource.name in restarted)
    ]
    return Restart(_target(stack), tuple(named), tuple(sharing), tuple(urns), tuple(targets))


def restart(wanted: Restart, output: ProgramOutput | None = None) -> Iterator[UpEvent]:
    """Run the program, replace just these processes, and yield the events of `up`."""
    options = [f"--target={urn}" for urn in wanted.targets]
    options += [f"--target-replace={urn}" for urn in wanted.urns]
    try:
        yield from up(wanted.selected, partial(project_run, "up", options=options), output, wanted.paths)
    except SymphonyError as error:
        if stacks.read(wanted.selected.name).recorded is None:
            stack = wanted.selected.name.stack
            remedy = f"Start it with `symphony up {stack}`"
            raise SymphonyError(f"{stack} was deleted while it was restarting", remedy=remedy) from error
        raise


def _target(stack: stacks.Stack) -> SelectedStack:
    """Return the stack with the program from which it was started."""
    folder = stacks.folder(stack)
    project = workspace.find_usable(Path(folder)) if folder else None
    if project is None and stack.name.project == workspace.DEFAULT_PROJECT:
        raise UserError(
            f"{stack.display_name} was launched by a script, which `symphony restart` cannot run",
            where=folder,
            remedy="In it, launch(experiment, force=True) restarts what changed;"
            f" after `symphony delete {stack.display_name}` it starts all of it anew",
        )
    if project is None or project.project != stack.name.project:
        raise UserError(
            f"the program of {stack.display_name} no longer exists",
            where=folder,
            remedy=f"Go to the new folder of its project, and run `symphony up {stack.display_name}`",
        )
    workspace.require_virtualenv(project)
    return SelectedStack(stack.name, project)
