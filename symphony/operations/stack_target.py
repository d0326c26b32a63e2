"""Which stack of which project an `up` is for, how it was, and making a missing one."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.backends import registry, settings_reader
from symphony.backends.stack_settings import StackSettings
from symphony.engine import workspace
from symphony.engine.state import file_store, store
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.plan import plan_file
from symphony.plan.names import launched_name, listed, near
from symphony.plan.problems import PlanError

_BACKEND = "symphony:backend"
# Settings of the plugin that makes clusters.
_CLOUD = "gcp:"
# What run_program() takes where it is given no folder.
_PROGRAMS = "stacks"


@dataclass(frozen=True)
class StackTarget:
    """A stack and the project folder whose program it runs; given: the settings that a script gives it."""

    name: file_store.StackName
    workspace: workspace.Workspace
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the stack as its files have it."""
        return workspace.stack_config(self.workspace, self.name.stack)

    @cached_property
    def settings(self) -> StackSettings:
        """Those of the stack, under those that a script gives it."""
        file = workspace.config_file(self.workspace, self.name.stack)
        return settings_reader.read(
            {**self.config, **self.given}, file, self.workspace.folder / "Pulumi.yaml"
        )


def of(given: str | None) -> StackTarget:
    """The stack that is meant, of the project here. UserError: no project, or no name and no single stack."""
    if given == "":
        raise UserError("the name of the stack is empty", remedy="Give one, or leave it out")
    given = given or os.environ.get("PULUMI_STACK") or ""
    place = workspace.find()
    if place is None:
        _refuse_away(stacks.named(given) if given else None)
        place = workspace.require()
    name = workspace.stack_name(given or _only(place), place)
    if name.project != place.project:
        _refuse_away(stacks.named(given))
        raise UserError(
            f"{name.stack} is of project {name.project}, this is project {place.project}",
            where=str(place.folder),
            remedy=f"Go to the folder of {name.project}",
        )
    workspace.require_virtualenv(place)
    return StackTarget(name, place)


def matching(pattern: str) -> list[str]:
    """The stacks here, up or with settings, that a shell pattern means; [] where it is none.

    UserError: it is one, and matches nothing.
    """
    if not set(pattern) & set("*?["):
        return []
    place = workspace.require()
    known = _live(place) | workspace.configured(place)
    if names := sorted(fnmatch.filter(known, pattern)):
        return names
    raise UserError(f'no stack matches "{pattern}"', remedy=f"There are: {listed(sorted(known)) or 'none'}")


def second(target: StackTarget) -> list[str]:
    """The experiments of the project that a new one would stand beside, the likeliest to be meant first.

    None where it is there already, or something says that it is meant: a program of this name, or settings.
    """
    place, stack = target.workspace, target.name.stack
    known = _stacks(place)
    is_meant = stack in known or stack.partition(".")[0] in _programs(place)
    if is_meant or workspace.config_file(place, stack).is_file():
        return []
    live = _live(place)
    return list(dict.fromkeys([*near(stack, live), *sorted(live)]))


def _refuse_away(stack: stacks.Stack | None) -> None:
    """Nobody can change from here what was started from another folder."""
    if stack is not None and stack.recorded is not None and (folder := stacks.folder(stack)):
        raise UserError(f"{stack.shown} was started from {folder}", remedy="Go there, and say it again")


def _refuse_namesake(target: StackTarget) -> None:
    """In tmux two experiments of one name would share a session."""
    row, settings = _backend(target), target.settings
    if not row.local or "symphony:server" in settings.config:
        return
    session = settings.namespace or launched_name(target.name.stack, label=row.labels)
    owners = {each.owner for each in row.observer.list_owned() if each.launched_as == session}
    for name in file_store.names() if owners else ():
        if name == target.name or paths.owner_of(name.project, name.stack) not in owners:
            continue
        if folder := stacks.folder(stacks.read(name)):
            raise UserError(
                f"{session} is up already, as {name.project}/{name.stack}: it was started from {folder}",
                remedy="Go there to change it, or give this one another name: `symphony up NAME`",
            )


def fetches_plugins(target: StackTarget, runs_on: str | None = None) -> bool:
    """Whether the engine is to get plugins for this stack: what its settings say, or on what it is up."""
    rows = (_backend(target), registry.get(runs_on) if runs_on else None)
    if any(key.startswith(_CLOUD) for key in target.settings.config):
        return True
    return any(row is not None and row.plugins for row in rows)


def before(target: StackTarget) -> stacks.Stack:
    """The stack as its state records it. UserError: it runs where an `up` from here would not find it.

    A stack that would move would stop in one backend and start in another, which is hardly ever meant: a
    settings file is missing, or its line of the backend.
    """
    if target.settings.problems:
        raise PlanError(target.name.stack, target.settings.problems)
    stack = stacks.read(target.name)
    if stack.recorded is None:
        _refuse_namesake(target)
    wanted = _backend(target)
    # Where nothing says it the program does, which refuses to move as well.
    is_set = _BACKEND in target.settings.config
    if stack.backend is not None and is_set and stack.backend != wanted.name:
        if _BACKEND in target.given:
            back = f'Launch it with Cluster.new("{stack.backend}")'
            raise plan_file.would_move(stack.shown, stack.backend, wanted.name, back)
        file = workspace.config_file(target.workspace, target.name.stack)
        raise plan_file.would_move(stack.shown, stack.backend, wanted.name, where=str(file))
    if cluster := target.config.get("symphony:cluster"):
        # Its kubeconfig only the program reads.
        _check_cluster(target, stack, str(cluster))
        return stacks.ensure_same_location(stack)
    if stack.backend == wanted.name or is_set:
        return stacks.ensure_same_location(stack, target.workspace, target.settings.config)
    # The Cluster of the program says how it is reached: as the state has it.
    return stacks.ensure_same_location(stack)


def _check_cluster(target: StackTarget, stack: stacks.Stack, cluster: str) -> None:
    """UserError: no stack is that cluster, or the experiment would end in one and start in another."""
    name = workspace.stack_name(cluster, target.workspace)
    if not store.exists(name):
        raise UserError(
            f"the cluster's stack {cluster} does not exist",
            where=str(workspace.config_file(target.workspace, target.name.stack)),
            remedy=f"Bring it up first: `symphony up {name.stack}`",
        )
    runs_in = {str(workspace.stack_name(name, target.workspace)) for name in stacks.clusters_of(stack)}
    if runs_in and str(name) not in runs_in:
        raise UserError(
            f"{stack.shown} runs on the cluster {', '.join(runs_in)} and would move to {cluster}",
            where=str(workspace.config_file(target.workspace, target.name.stack)),
            remedy=f"End it there first: `symphony delete {stack.shown}`",
        )


def _backend(target: StackTarget) -> registry.Backend:
    return registry.get(target.settings.backend)


@contextmanager
def existing(target: StackTarget, *, changes: bool = False) -> Generator[None]:
    """The stack, made when it is missing; one made here goes again, with changes when nothing came of it.

    changes: the block changes what runs. An engine that dies in it leaves no record of what it has started:
    where that is not on this machine, only the settings of the stack say where `delete` finds it.
    """
    file = workspace.config_file(target.workspace, target.name.stack)
    settings = file.read_bytes() if file.is_file() else None
    created = workspace.create_stack(target.workspace, target.name.stack)
    try:
        yield
        if created and not changes:
            _remove(target, file, settings)
    except BaseException as error:
        may_live = changes and not _backend(target).local and not isinstance(error, UserError)
        if created and not may_live:
            _remove(target, file, settings)
        raise


def _remove(target: StackTarget, file: Path, settings: bytes | None) -> None:
    """Only a stack in which there is nothing but itself and the engine's own bookkeeping.

    The settings are the user's, and stay as they were before: the engine wrote its salt into them.
    """
    words = ["stack", "rm", f"--stack={target.name.stack}", "--yes", "--preserve-config"]
    if file_store.is_files():
        if not file_store.exists(target.name):
            return
        if any(not each.type.startswith("pulumi:") for each in file_store.read(target.name).resources):
            return
        words.append("--force")
    if workspace.pulumi(target.workspace, words).returncode:
        return
    if settings is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(settings)


def _only(place: workspace.Workspace) -> str:
    """The one stack of the project, else its one program, which alone is named as its project."""
    known, programs, live = _stacks(place), _programs(place), _live(place)
    for candidates in (live, known, programs):
        if len(candidates) == 1:
            return candidates.pop()
    if not (known or programs) and place.program.is_file():
        return place.project
    names = sorted(live | programs or known)
    raise UserError("which stack?", remedy=f"Name one of: {listed(names)}" if names else "Give it a name")


def names_here() -> list[str]:
    """The experiments of the project here and its programs, none without a project."""
    place = workspace.find_usable()
    return sorted(_live(place) | _programs(place)) if place is not None else []


def _stacks(place: workspace.Workspace) -> set[str]:
    names = file_store.names() if file_store.is_files() else []
    return {name.stack for name in names if name.project == place.project}


def _live(place: workspace.Workspace) -> set[str]:
    """Those on which something is started: what was deleted is a stack, too."""
    every = (stack for stack in stacks.every() if stack.name.project == place.project)
    return {stack.name.stack for stack in every if stack.recorded is not None}


def _programs(place: workspace.Workspace) -> set[str]:
    """Those that the dispatcher of a project runs by the name of the stack."""
    folder = place.program.parent / _folder_of_programs(place)
    return {file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")}


def _folder_of_programs(place: workspace.Workspace) -> str:
    """The folder that the project's program gives run_program()."""
    import ast

    try:
        nodes = ast.walk(ast.parse(place.program.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return _PROGRAMS
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("run_program"):
            for given in (*node.args, *(each.value for each in node.keywords)):
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    return given.value
    return _PROGRAMS
