"""Launches an experiment of a plain script: a stack, a project of the user or a hidden one, an engine run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml

from symphony import run_request
from symphony.backends import registry
from symphony.classic.config import SymphonyConfig
from symphony.cli import plan_table, screen
from symphony.cli.progress import Board
from symphony.components import run
from symphony.components.experiment import Experiment
from symphony.engine import workspace
from symphony.engine.run.events import Verb
from symphony.engine.run.run import InlineRun, workspace_for
from symphony.engine.state import store
from symphony.errors import ResourceExistsError, SymphonyError
from symphony.operations import stacks
from symphony.operations.plan import Planned, planned_from
from symphony.operations.process import processes, state
from symphony.operations.selected_stack import SelectedStack
from symphony.operations.up import Ended, UpEvent, up
from symphony.plan.names import as_stack
from symphony.run_request import RunRequest


def launch(exp: Experiment, settings: Mapping[str, str], *, force: bool, dry_run: bool) -> Ended | Planned:
    """Start an experiment, or only plan it, and show the progress at a terminal.

    Args:
        exp: The experiment.
        settings: The settings of the cluster.
        force: Change the experiment of that name, if it is up, and replace a saved one.
        dry_run: Only return the plan.

    Raises:
        ResourceExistsError: It is up, or was saved before.
        SymphonyError: Some processes do not run.
    """
    name = as_stack(exp.name)
    project = workspace_for(name)
    selected = SelectedStack(workspace.stack_name(name, project), project, settings)
    folder = _refuse_existing(selected, force or dry_run)
    if dry_run:
        planned = planned_from(selected, partial(_run, "preview", exp), manifests=True)
        assert isinstance(planned, Planned), "a script launches experiments"
        if screen.is_terminal():
            plan_table.show(planned)
        return planned
    events = up(selected, partial(_run, "up", exp))
    *_, ended = _shown(events) if screen.is_terminal() else events
    if not isinstance(ended, Ended):
        raise SymphonyError(
            f"Pulumi ended before {exp.name} was up", remedy=f"`symphony up {exp.name}` shows why"
        )
    stacks.set_current(selected.name)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "experiment.yaml").write_text(yaml.safe_dump(exp.to_dict(), sort_keys=False))
    if ended.troubled:
        raise _troubled(ended)
    return ended


def _shown(events: Iterator[UpEvent]) -> Iterator[UpEvent]:
    with Board() as board:
        for event in events:
            board.show(event, plan_table.show)
            yield event


def _refuse_existing(selected: SelectedStack, force: bool) -> Path | None:
    """Return the folder in which to save an experiment; raise ResourceExistsError if it is up or saved."""
    is_known = store.exists(selected.name)
    before = stacks.read(selected.name) if is_known else None
    if before is not None and before.recorded is not None and not force and not _is_lost(before):
        raise ResourceExistsError(
            f"experiment {selected.name.stack} exists",
            remedy="Delete the experiment first, or launch with force=True",
        )
    home = SymphonyConfig().experiment_folder
    folder = Path(home).expanduser() / selected.name.stack if home is not None else None
    # A deleted experiment may be launched again.
    if folder is not None and folder.exists() and not is_known and not force:
        raise ResourceExistsError(
            f"experiment {selected.name.stack} was saved before",
            where=str(folder),
            remedy="Give it another name, or replace the saved one with force=True",
        )
    return folder


def _is_lost(stack: stacks.Stack) -> bool:
    """Return whether all processes of an experiment are lost, as after `tmux kill-session`."""
    return all(status.state == "lost" for status in processes(stack))


def _run(
    verb: Verb,
    experiment: Experiment,
    selected: SelectedStack,
    request: RunRequest,
    *,
    fetch_plugins: bool,
    extra: Mapping[str, str] | None = None,
) -> InlineRun:
    def program() -> None:
        run_request.use(request)
        run.launch(experiment, selected.overrides)

    return InlineRun(
        verb,
        selected.workspace,
        selected.name.stack,
        program=program,
        extra=extra,
        options=_options(selected),
        fetch_plugins=fetch_plugins,
    )


def _options(selected: SelectedStack) -> Sequence[str]:
    """Return the engine options that keep the settings of the cluster with the stack, for `symphony`."""
    before = {"symphony:backend": registry.DEFAULT, "symphony:server": "default", **selected.config}
    return [
        f"--config={key}={value}" for key, value in selected.overrides.items() if before.get(key) != value
    ]


def _troubled(ended: Ended) -> SymphonyError:
    """Return the error for processes that do not run after the launch."""
    first, *_ = ended.troubled
    error = SymphonyError(
        f"{len(ended.troubled)} of {len(ended.statuses)} processes of {ended.stack} are not running",
        remedy=f"`symphony why {ended.stack} {first.path}` explains it",
    )
    error.details = tuple(f"  {status.path}   {state(status)}" for status in ended.troubled)
    return error
