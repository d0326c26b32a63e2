"""Which stack of which project an `up` is for, and making it when it is missing; plan and up call it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from symphony.engine import store, workspace
from symphony.errors import UserError
from symphony.plan.worlds import ALIASES, FETCHING


@dataclass(frozen=True)
class Target:
    """A stack and the project folder whose program it runs."""

    name: store.StackName
    workspace: workspace.Workspace


def of(said: str | None) -> Target:
    """The stack that is meant, of the project here. UserError: no project, or no name and no single stack."""
    place = workspace.require()
    said = said or os.environ.get("PULUMI_STACK") or _only(place)
    name = workspace.stack_name(said, place)
    if name.project != place.project:
        raise UserError(
            f"{name.stack} is of project {name.project}, this is project {place.project}",
            where=str(place.folder),
            remedy=f"Go to the folder of {name.project}",
        )
    return Target(name, place)


def fetches_plugins(target: Target) -> bool:
    """Whether the engine is to get plugins for this stack: what its settings say of its world."""
    said = str(workspace.stack_config(target.workspace, target.name.stack).get("symphony:backend"))
    return ALIASES.get(said, said) in FETCHING


@contextmanager
def existing(target: Target) -> Generator[None]:
    """The stack, made when it is missing; one made here goes again when nothing came of it."""
    created = workspace.create_stack(target.workspace, target.name.stack)
    try:
        yield
    except BaseException:
        if created:
            _remove(target)
        raise


def _remove(target: Target) -> None:
    """Only a stack in which there is nothing but itself and the engine's own bookkeeping."""
    if not store.is_files() or not store.exists(target.name):
        return
    if any(not resource.type.startswith("pulumi:") for resource in store.read(target.name).resources):
        return
    words = ["stack", "rm", f"--stack={target.name.stack}", "--yes", "--force"]
    workspace.pulumi(target.workspace, words)


def _only(place: workspace.Workspace) -> str:
    """The one stack of the project, else its one program."""
    stacks = store.names() if store.is_files() else []
    known = {name.stack for name in stacks if name.project == place.project}
    programs = {file.stem for file in (place.folder / "stacks").glob("*.py") if not file.stem.startswith("_")}
    for candidates in (known, programs):
        if len(candidates) == 1:
            return candidates.pop()
    listed = ", ".join(sorted(known | programs))
    raise UserError("which stack?", remedy=f"Name one of: {listed}" if listed else "Give it a name")
