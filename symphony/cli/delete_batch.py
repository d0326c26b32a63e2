"""`symphony delete-batch`: delete several experiments, by name or pattern."""

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.cli.at_once import run_all
from symphony.cli.delete import Forget, size
from symphony.engine.state.file_store import StackName
from symphony.operations import runs, stacks, sweep
from symphony.plan.problems import count


def command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME_OR_PATTERN...",
            help="Full names, shell patterns such as 'sweep-*', expressions such as '/^sweep/'.",
            autocompletion=arguments.complete_experiments,
        ),
    ],
    yes: arguments.Force = False,
    dry_run: arguments.DryRun = False,
    forget: Forget = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Delete several experiments with everything they started. A failure does not stop the others.

    Their runs and logs are kept. --forget removes them too, including those of experiments deleted earlier.

    Examples:
        symphony delete-batch 'sweep-*'
        symphony delete-batch rl numint -y
        symphony delete-batch 'old-*' --forget
    """
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    live = (stack for stack in stacks.every() if stack.recorded is not None or stack.trouble)
    known = {stack.name: size(stack) for stack in live}
    if forget:
        known |= {
            name: count(len(runs.numbers(name)), "run") for name in runs.experiments() if name not in known
        }
    matched = _without_trials(stacks.match_names(names, known))
    if dry_run and as_json:
        screen.show_json({"would_delete": {str(name): known[name] for name in matched}})
        return 0
    if dry_run or not yes:
        for name, label in stacks.labels(matched).items():
            print(screen.clean(f"  {label}  {known[name]}"))
    total, and_runs = count(len(matched), "experiment"), " with their runs" if forget else ""
    if dry_run:
        print(f"Would delete {total}{and_runs}.")
        return 0
    if not yes:
        arguments.confirm(f"Delete {total}{and_runs}?")
    options = ["--yes", *(["--forget"] if forget else [])]
    return run_all("delete", [*map(str, matched)], options, as_json=as_json)


def _without_trials(names: list[StackName]) -> list[StackName]:
    """Return the names without the trials of the sweeps among them, which are deleted with their sweep."""
    sweeps = [swept for swept in sweep.every() if swept.full_name in names]
    trials = {swept.stack_of(trial) for swept in sweeps for trial in swept.trials}
    return [name for name in names if name not in trials]
