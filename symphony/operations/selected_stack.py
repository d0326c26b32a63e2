"""Selects the stack of a command: finds it by name, checks it against its state, creates it."""

import fnmatch
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.backends import registry, settings_reader
from symphony.backends.stack_settings import StackSettings
from symphony.engine import workspace as workspaces
from symphony.engine.state import file_store, store
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError, UserError
from symphony.operations import stacks
from symphony.plan.names import listed, quoted
from symphony.plan.problems import PlanError, would_move

_BACKEND = "symphony:backend"
# The prefix of the settings of the plugin that creates clusters.
_CLOUD = "gcp:"
# The folder of the programs, as in run_program() of components/dispatch.py and `symphony init`.
_PROGRAMS = "stacks"


@dataclass(frozen=True)
class SelectedStack:
    """A selected stack of a project, with its settings.

    Attributes:
        overrides: Settings that a script or `-c` passes; they replace those of the stack's file.
    """

    name: StackName
    workspace: workspaces.Workspace
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The configuration of the stack as its files have it."""
        return workspaces.stack_config(self.workspace, self.name.stack)

    @cached_property
    def settings(self) -> StackSettings:
        """The settings of the stack, with the overrides."""
        project_file = self.workspace.folder / "Pulumi.yaml"
        return settings_reader.read_settings(
            {**self.config, **self.overrides}, self.config_file, project_file
        )

    @property
    def config_file(self) -> Path:
        return workspaces.config_file(self.workspace, self.name.stack)

    @property
    def backend(self) -> registry.Backend:
        return registry.get(self.settings.backend)


def read_overrides(words: Sequence[str], project: str) -> dict[str, str]:
    """Return the settings of `-c lr=0.3` and `-c symphony:grace=1`; `lr` alone is a key of the project.

    Raises:
        UserError: A word is not KEY=VALUE.
    """
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, setting = word.partition("=")
        if not (key and equals):
            raise UserError(f"-c {quoted(word)} is not KEY=VALUE", remedy="Write -c KEY=VALUE")
        pairs[key if ":" in key else f"{project}:{key}"] = setting
    return pairs


@contextmanager
def guard_settings_file(selected: SelectedStack, *, dry_run: bool) -> Generator[None]:
    """Restore the settings file after a block that changed nothing: the engine writes overrides into it."""
    content = _read(selected.config_file)
    keeps = False
    try:
        yield
        keeps = not dry_run
    except UserError:
        raise
    except (SymphonyError, KeyboardInterrupt):
        # The engine may have begun.
        keeps = True
        raise
    finally:
        if selected.overrides and not keeps:
            _restore(selected.config_file, content)


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _restore(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(content)


def select(word: str | None, config: Sequence[str] | None = None) -> SelectedStack:
    """Return the stack of this project with a name; without a name, the only or the current one.

    Args:
        config: The settings of `-c`, as in `read_overrides`.

    Raises:
        UserError: This folder has no project, the name is of another project, several stacks are possible,
            or a setting is not KEY=VALUE.
    """
    if word == "":
        raise UserError("the name of the stack is empty", remedy="Name one, or omit it")
    word = word or os.environ.get("PULUMI_STACK") or ""
    workspace = workspaces.find()
    if workspace is None:
        _refuse_elsewhere(word)
        workspace = workspaces.require()
    name = workspaces.stack_name(word or _default_name(workspace), workspace)
    if name.project != workspace.project:
        _refuse_elsewhere(word)
        raise UserError(
            f"{name.stack} belongs to project {name.project}, this folder to project {workspace.project}",
            where=str(workspace.folder),
            remedy=f"Go to the folder of {name.project}",
        )
    if name.stack.endswith(".py") and name.stack not in _live(workspace):
        program = name.stack.removesuffix(".py")
        remedy = f"Write {program}"
        if program not in _programs(workspace):
            remedy = f"Choose a name without .py; all stacks of this project run {workspace.program.name}"
        raise UserError(f"{name.stack} is the name of a file, not of a stack", remedy=remedy)
    workspaces.require_virtualenv(workspace)
    return SelectedStack(name, workspace, read_overrides(config or (), name.project))


def select_all(pattern: str) -> list[str]:
    """Return the stacks of this project, up or with settings, that match a shell pattern; [] for a name.

    Raises:
        UserError: The pattern matches nothing.
    """
    if not set(pattern) & set("*?["):
        return []
    workspace = workspaces.require()
    live = _live(workspace)
    known = (live.keys() | workspaces.configured_stacks(workspace)) - _of_scripts(live)
    if names := sorted(fnmatch.filter(known, pattern)):
        return names
    raise UserError(f'no stack matches "{pattern}"', remedy=f"Known: {listed(sorted(known)) or 'none'}")


def names_here() -> list[str]:
    """Return the experiments and the programs of this project; [] outside of projects."""
    workspace = workspaces.find_usable()
    return sorted(_live(workspace).keys() | _programs(workspace)) if workspace is not None else []


def _default_name(workspace: workspaces.Workspace) -> str:
    """Return the only stack of the project, the current one if it is up, or the project's namesake."""
    running = _live(workspace)
    scripts = _of_scripts(running)
    live = {
        stack for stack in running.keys() - scripts if not _is_of_sweep(StackName(workspace.project, stack))
    }
    # A sweep and its trials leave no settings in the project.
    known = {name.stack for name in store.names() if name.project == workspace.project}
    configured, programs = workspaces.configured_stacks(workspace) - scripts, _programs(workspace)
    known &= configured
    has_own_program = not programs and workspace.program.is_file()
    if has_own_program and not live and any(_is_named_after(workspace, stack) for stack in configured):
        return workspace.project
    for candidates in (live, known, programs):
        if len(candidates) == 1:
            return candidates.pop()
    live_by_full_name = {str(StackName(workspace.project, stack)): stack for stack in live}
    if current := live_by_full_name.get(stacks.current()):
        return current
    if has_own_program and (workspace.project in live or not known):
        return workspace.project
    names = listed(sorted(live | programs or known))
    raise UserError(
        "several stacks are possible" if names else "the project has no stack yet",
        remedy=f"Name one of: {names}" if names else "Write its name",
    )


def _is_named_after(workspace: workspaces.Workspace, stack: str) -> bool:
    # Stacks NAME and NAME.SUFFIX belong to the program NAME.
    return stack == workspace.project or stack.startswith(f"{workspace.project}.")


def _live(workspace: workspaces.Workspace) -> dict[str, stacks.Stack]:
    own = (stack for stack in stacks.every() if stack.name.project == workspace.project)
    return {stack.name.stack: stack for stack in own if stack.recorded is not None}


def _of_scripts(live: Mapping[str, stacks.Stack]) -> set[str]:
    """Return the stacks that scripts launched: the project's program would replace their processes."""
    return {name for name, stack in live.items() if stack.is_of_script}


def sweeps_folder(project: str) -> Path:
    """Return the folder with the sweeps of a project."""
    return paths.home() / "sweeps" / paths.store_id() / project


def is_trial(name: StackName) -> bool:
    """Return whether a stack is a trial of a sweep."""
    head, _, number = name.stack.rpartition(".")
    return bool(head) and number.isdecimal() and (sweeps_folder(name.project) / head).is_dir()


def _is_of_sweep(name: StackName) -> bool:
    return is_trial(name) or (sweeps_folder(name.project) / name.stack).is_dir()


def _programs(workspace: workspaces.Workspace) -> set[str]:
    folder = workspace.program.parent / _PROGRAMS
    return {file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")}


def _refuse_elsewhere(word: str) -> None:
    stack = stacks.find_exact(word) if word else None
    if stack is not None and stack.recorded is not None and (folder := stacks.folder(stack)):
        moved = "That folder is gone: run the command in the new folder of the project"
        remedy = "Run the command there" if Path(folder).is_dir() else moved
        raise UserError(f"{stack.display_name} was started from {folder}", remedy=remedy)


def recorded_stack(selected: SelectedStack) -> stacks.Stack:
    """Return the stack as its state records it before an `up`.

    Raises:
        PlanError: Its settings have problems.
        UserError: It runs in another backend or cluster than its settings name. Most likely the settings
            file, or a line of it, is missing.
    """
    if selected.settings.problems:
        raise PlanError(selected.name.stack, selected.settings.problems)
    stack = stacks.read(selected.name)
    # Without the setting, the program selects the backend, and refuses another one itself.
    is_set = _BACKEND in selected.settings.config
    if stack.backend is not None and is_set and stack.backend != selected.backend.name:
        if _BACKEND in selected.overrides:
            back = f'Launch it with Cluster.new("{stack.backend}")'
            raise would_move(stack.display_name, stack.backend, selected.backend.name, back)
        where = str(selected.config_file)
        raise would_move(stack.display_name, stack.backend, selected.backend.name, where=where)
    if cluster := selected.config.get("symphony:cluster"):
        # Only the program reads the kubeconfig of the cluster.
        _check_cluster(selected, stack, str(cluster))
        return stacks.ensure_same_location(stack)
    if stack.backend == selected.backend.name or is_set:
        return stacks.ensure_same_location(stack, selected.workspace, selected.settings.config)
    # A Cluster in the program has the connection, as the state records it.
    return stacks.ensure_same_location(stack)


def fetches_plugins(selected: SelectedStack, runs_on: str | None = None) -> bool:
    """Return whether the engine needs plugins for this stack, by its settings or by where it runs now."""
    if any(key.startswith(_CLOUD) for key in selected.settings.config):
        return True
    return bool(selected.backend.plugins or (runs_on and registry.get(runs_on).plugins))


def _check_cluster(selected: SelectedStack, stack: stacks.Stack, cluster: str) -> None:
    """Raise UserError if no stack creates the cluster, or the experiment runs on another cluster."""
    name = workspaces.stack_name(cluster, selected.workspace)
    if not store.exists(name):
        raise UserError(
            f"the cluster's stack {cluster} does not exist",
            where=str(selected.config_file),
            remedy=f"Run `symphony up {name.stack}` in the project {name.project} first",
        )
    runs_in = {str(workspaces.stack_name(name, selected.workspace)) for name in stacks.clusters_of(stack)}
    if runs_in and str(name) not in runs_in:
        raise UserError(
            f"{stack.display_name} runs on the cluster {', '.join(runs_in)} and would move to {cluster}",
            where=str(selected.config_file),
            remedy=f"Run `symphony delete {stack.display_name}` first",
        )


@contextmanager
def ensure_stack(selected: SelectedStack, *, changes: bool = False) -> Generator[None]:
    """Create a missing stack for the block, and remove it afterwards unless it has resources.

    changes: Whether the block starts processes. An engine that dies in it leaves no record of them. Unless
    they are on this machine, `delete` finds them only by the settings of the stack.
    """
    settings = _read(selected.config_file)
    created = workspaces.create_stack(selected.workspace, selected.name.stack)
    try:
        yield
        if created and not changes:
            _remove(selected, settings)
    except BaseException as error:
        may_run = changes and not selected.backend.local and not isinstance(error, UserError)
        if created and not may_run:
            _remove(selected, settings)
        raise


def _remove(selected: SelectedStack, settings: bytes | None) -> None:
    """Remove a stack that has no resources; its settings stay without the salt that the engine wrote."""
    arguments = ["stack", "rm", f"--stack={selected.name.stack}", "--yes", "--preserve-config"]
    if file_store.is_files():
        if not file_store.exists(selected.name):
            return
        resources = file_store.read_state(selected.name).resources
        if any(not resource.type.startswith("pulumi:") for resource in resources):
            return
        if resources:
            # Without it, the engine keeps a stack to which another run has just added resources.
            arguments.append("--force")
    if workspaces.pulumi(selected.workspace, arguments).returncode == 0:
        _restore(selected.config_file, settings)
