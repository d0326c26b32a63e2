"""`symphony sweep`: runs a program once for each combination of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.cli.progress import Board
from symphony.engine.workspace import Workspace
from symphony.errors import UserError
from symphony.operations import runs, selected_stack, sweep
from symphony.operations.plan import Planned, plan_of
from symphony.operations.process import seconds
from symphony.operations.up import Ended, up
from symphony.plan.problems import count

# The maximum number of trials in the table.
_SHOWN = 40


def command(
    program: arguments.Program = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUES]...", help="lr=0.1,0.3 seed=1..5 'x=log(1e-4,1)*20' @FILE.csv"),
    ] = None,
    at_most: Annotated[
        int | None,
        typer.Option("--at-most", min=1, metavar="N", help="Maximum number of trials at once; 4 by default."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the sweep; PROGRAM-sweep by default."),
    ] = None,
    stop_after: Annotated[
        str | None, typer.Option("--stop-after", metavar="TIME", help="Time limit of a trial.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed trials again.")] = False,
    yes: arguments.Yes = False,
    dry_run: arguments.DryRun = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Run a program once for each combination of parameters, with a copy of the code.

    The sweep runs in a tmux window. Each trial is an experiment, SWEEP.NUMBER, until it has ended. The same
    command with more values runs only the new trials.

    Examples:
        symphony sweep train lr=0.1,0.3 seed=1..5 --at-most 2 --name grid
        symphony sweep grid --retry
        symphony results grid --min loss
        symphony wait grid
        symphony delete grid
    """
    if as_json and not (yes or dry_run):
        raise UserError("--json cannot ask for confirmation", remedy="Add -y")
    base = selected_stack.select(program)
    existing = sweep.read(base.name)
    if existing is not None and not words:
        stack, name = existing.stack, existing.name
    else:
        stack, name = base.name.stack, name or f"{base.name.stack.replace('.', '-')}-sweep"
    if existing is None and not words:
        remedy = f"Name them, as in `symphony sweep {stack} lr=0.1,0.3 seed=1..5`"
        raise UserError("a new sweep needs parameters", remedy=remedy)
    values = sweep.trials_of(words or (), name) if words else []
    wanted = sweep.prepare(base.workspace, stack, name, values)
    wanted.at_most = at_most or wanted.at_most
    wanted.stop_after = seconds(stop_after) if stop_after else wanted.stop_after
    if dry_run:
        _show(wanted, retry=retry, as_json=as_json)
        return 0
    is_new = not wanted.folder.exists()
    try:
        missing = sweep.freeze(wanted, base.workspace)
        if not as_json:
            _show(wanted, retry=retry, as_json=False)
            for line in missing:
                print(screen.clean(f"Not copied, but linked, so changes affect trials: {line}."))
        _check(wanted, base.workspace)
        if not yes:
            arguments.confirm("Proceed?")
    except BaseException:
        if is_new:
            runs.remove(wanted.folder)
        raise
    return _start(wanted, retry=retry, as_json=as_json)


def _check(wanted: sweep.Sweep, place: Workspace) -> None:
    """Plan the first new trial, so that mistakes are reported before anything starts."""
    if (trial := next((trial for trial in wanted.trials if trial.state == "waiting"), None)) is not None:
        planned = plan_of(sweep.cell_target(wanted, trial))
        if isinstance(planned, Planned):
            sweep.link_secrets(wanted, place, planned.plan)


def _start(wanted: sweep.Sweep, *, retry: bool, as_json: bool) -> int:
    target = sweep.begin(wanted, retry=retry)
    with Board(quiet=True):
        ended = next(event for event in up(target) if isinstance(event, Ended))
    if as_json:
        screen.show_json(
            {"sweep": wanted.name, "trials": len(wanted.trials), "troubled": len(ended.troubled)}
        )
    else:
        more = (
            f"symphony logs {wanted.name} -f   symphony results {wanted.name}   symphony delete {wanted.name}"
        )
        print(screen.clean(f"{wanted.name} runs in a tmux window.   {more}"))
    return 1 if ended.troubled else 0


def _show(wanted: sweep.Sweep, *, retry: bool, as_json: bool) -> None:
    if as_json:
        rows = [{"trial": trial.number, **trial.values, "state": trial.state} for trial in wanted.trials]
        screen.show_json({"sweep": wanted.name, "at_most": wanted.at_most, "trials": rows})
        return
    names = wanted.names
    rows = [_cells(trial, names) for trial in wanted.trials[:_SHOWN]]
    screen.show_table(("trial", *names, ""), rows, right=(0,))
    if len(wanted.trials) > _SHOWN:
        print(f"... {len(wanted.trials) - _SHOWN} more")
    starts = ("waiting", "stopped", "failed") if retry else ("waiting", "stopped")
    left = sum(1 for trial in wanted.trials if trial.state in starts)
    to_run = f", {left} to run" if left < len(wanted.trials) else ""
    total = count(len(wanted.trials), "trial")
    print(screen.clean(f"{total}{to_run}, {wanted.at_most} at a time{_frozen(wanted)}."))


def _frozen(wanted: sweep.Sweep) -> str:
    if wanted.git is None:
        return ""
    changed = f" + {count(len(wanted.git.changed), 'changed file')}" if wanted.git.changed else ""
    return f"; code frozen at {wanted.git.commit[:7]}{changed}"


def _cells(trial: sweep.Trial, names: Sequence[str]) -> tuple[object, ...]:
    state = "" if trial.state == "waiting" else trial.state
    return trial.number, *(trial.values.get(name, "") for name in names), state
