"""`symphony delete-batch`: delete several experiments, by name or pattern."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.cli.at_once import run_all
from symphony.cli.delete import size
from symphony.operations import stacks
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
    as_json: arguments.AsJson = False,
) -> int:
    """Delete several experiments with everything they started. The failure of one does not stop the others.

    Examples:
        symphony delete-batch 'sweep-*'
        symphony delete-batch rl numint -y
    """
    matched = stacks.find_all(names)
    if dry_run or not yes:
        for stack in matched:
            print(screen.clean(f"  {stack.display_name}  {size(stack)}"))
    if dry_run:
        print(f"Would delete {count(len(matched), 'experiment')}.")
        return 0
    if not yes:
        arguments.confirm(f"Delete {count(len(matched), 'experiment')} with their logs?")
    return run_all("delete", [str(stack.name) for stack in matched], ["--yes"], as_json=as_json)
