"""`symphony delete-batch`: several experiments go, by name or pattern."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from symphony.cli import choose, complete, options, screen
from symphony.cli.delete import take_down
from symphony.engine.errors import Interrupted
from symphony.errors import SymphonyError
from symphony.operations.delete import matching
from symphony.operations.stacks import Stack
from symphony.plan.problems import count


def command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME_OR_PATTERN...",
            help="Whole names, or shell patterns as 'sweep-*'.",
            autocompletion=complete.experiments,
        ),
    ],
    yes: options.Yes = False,
) -> int:
    """Stop several experiments and everything they started; one that fails does not keep the others.

    Examples:
        symphony delete-batch 'sweep-*'
        symphony delete-batch rl numint -y
    """
    found = matching(names)
    if not yes:
        choose.require_terminal()
        for stack in found:
            print(screen.clean(f"  {stack.shown}  {_size(stack)}"))
        if not choose.confirmed(f"Stop {count(len(found), 'experiment')} and delete their logs?"):
            print("Nothing was changed.")
            return 1
    failed = 0
    for stack in found:
        try:
            take_down(stack)
        except Interrupted:
            raise
        except SymphonyError as error:
            failed += 1
            print(screen.clean(f"symphony: {stack.shown}: {error}"), file=sys.stderr, flush=True)
    return 1 if failed else 0


def _size(stack: Stack) -> str:
    total = len(stack.recorded.processes) if stack.recorded else 0
    return count(total, "process", "processes")
