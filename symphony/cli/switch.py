"""`symphony switch`: the current experiment."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose, options, screen
from symphony.engine import workspace
from symphony.errors import UserError
from symphony.operations import stacks, switch


def command(
    name: options.Experiment = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Also one that is not there yet.")] = False,
) -> None:
    """Make an experiment the one that is meant where none is named; without a name, say which one is.

    Examples:
        symphony switch rl
        symphony switch
    """
    if force and name is not None and stacks.named(name) is None:
        switch.remember(workspace.stack_name(name, workspace.find_usable()))
        print(screen.clean(name))
        return
    stack = choose.experiment(name)
    if stack.recorded is None and not force:
        raise UserError(
            f"{stack.shown} is not up",
            remedy=f"Start it with `symphony up {stack.shown}`, or choose it with -f",
        )
    if name is not None:
        switch.remember(stack.name)
    print(screen.clean(stack.shown))
