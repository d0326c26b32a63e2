"""`symphony sweep`: runs a program once for each combination of parameters."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.engine.workspace import Workspace
from symphony.errors import UserError
from symphony.operations import runs, selected_stack, sweep
from symphony.operations.plan import Planned, plan_of
from symphony.operations.process import seconds
from symphony.operations.selected_stack import SelectedStack
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
    command with more values runs only the new trials, and those that were stopped.

    Examples:
        symphony sweep train lr=0.1,0.3 seed=1..5 --at-most 2 --name grid
        symphony sweep grid --retry
        symphony results grid --min loss
        symphony wait grid
        symphony delete grid
    """
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    if program and ("=" in program or program.startswith("@")):
        # Without a stack, the first argument is a parameter.
        program, words = None, [program, *(words or ())]
    base = selected_stack.select(program)
    swept = _prepare(base, words or (), name)
    swept.at_most = at_most or swept.at_most
    swept.stop_after = seconds(stop_after) if stop_after else swept.stop_after
    if dry_run:
        if words and (new := _next_trial(swept)):
            # Mistakes in the program and in names of parameters are reported.
            plan_of(replace(base, overrides=sweep.overrides_of(swept, new)))
        _show(swept, retry=retry, as_json=as_json)
        return 0
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        # If the terminal is closed at the question, nothing may stay.
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        linked = sweep.freeze(swept, base.workspace)
        if not as_json:
            _show(swept, retry=retry, as_json=False)
            for line in linked:
                print(screen.clean(f"Linked, not copied, so that later changes affect the trials: {line}."))
        _check(swept, base.workspace)
        if not yes:
            arguments.confirm("Proceed?")
    except BaseException:
        if not swept.has_begun:
            runs.remove(swept.folder)
        raise
    return _start(swept, retry=retry, as_json=as_json)


def _prepare(base: SelectedStack, words: Sequence[str], name: str | None) -> sweep.Sweep:
    """Return the sweep of the words; without words, the stack names an existing sweep."""
    stack, existing = base.name.stack, sweep.read(base.name)
    if words:
        name = name or f"{stack.replace('.', '-')}-sweep"
        return sweep.prepare(base.workspace, stack, name, sweep.trials_of(words, name))
    if existing is None or name not in (None, stack):
        remedy = f"Name them, as in `symphony sweep {stack} lr=0.1,0.3 seed=1..5`"
        raise UserError("a new sweep needs parameters", remedy=remedy)
    return existing


def _check(swept: sweep.Sweep, workspace: Workspace) -> None:
    """Plan the first new trial, so that mistakes are reported before anything starts.

    Set the backend of the sweep, and replace its copies of secret files with links to the originals.
    """
    if trial := _next_trial(swept):
        selected = sweep.select_trial(swept, trial)
        swept.backend = selected.backend.name
        planned = plan_of(selected)
        if isinstance(planned, Planned):
            secrets = runs.secret_files(planned.plan, Path(planned.folder))
            sweep.link_secrets(swept, workspace, secrets)


def _next_trial(swept: sweep.Sweep) -> sweep.Trial | None:
    return next((trial for trial in swept.trials if trial.state == "waiting"), None)


def _start(swept: sweep.Sweep, *, retry: bool, as_json: bool) -> int:
    runner = sweep.begin(swept, retry=retry)
    ended = next(event for event in up(runner) if isinstance(event, Ended))
    name = swept.name
    if as_json:
        screen.show_json({"sweep": name, "trials": len(swept.trials), "troubled": len(ended.troubled)})
    else:
        hints = f"symphony logs {name} -f   symphony results {name}   symphony delete {name}"
        print(screen.clean(f"{name} runs in a tmux window.   {hints}"))
    return 1 if ended.troubled else 0


def _show(swept: sweep.Sweep, *, retry: bool, as_json: bool) -> None:
    if as_json:
        rows = [{"trial": trial.number, **trial.values, "state": trial.state} for trial in swept.trials]
        screen.show_json({"sweep": swept.name, "at_most": swept.at_most, "trials": rows})
        return
    names = swept.names
    rows = [_cells(trial, names) for trial in swept.trials[:_SHOWN]]
    screen.show_table(("trial", *names, ""), rows, right=(0,))
    if len(swept.trials) > _SHOWN:
        print(f"... {len(swept.trials) - _SHOWN} more")
    starts = ("waiting", "stopped", "failed") if retry else ("waiting", "stopped")
    left = sum(1 for trial in swept.trials if trial.state in starts)
    to_run = f", {left} to run" if left < len(swept.trials) else ""
    total = count(len(swept.trials), "trial")
    print(screen.clean(f"{total}{to_run}, {swept.at_most} at a time{_frozen_commit(swept)}."))


def _frozen_commit(swept: sweep.Sweep) -> str:
    if swept.git is None:
        return ""
    changed = f" + {count(len(swept.git.changed), 'changed file')}" if swept.git.changed else ""
    return f"; code frozen at {swept.git.commit[:7]}{changed}"


def _cells(trial: sweep.Trial, names: Sequence[str]) -> tuple[object, ...]:
    state = "" if trial.state == "waiting" else trial.state
    return trial.number, *(trial.values.get(name, "") for name in names), state
