"""`symphony switch`: the current experiment; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose, screen
from symphony.operations import switch


def command(
    name: Annotated[str | None, typer.Argument(metavar="[EXPERIMENT]", help="Its stack's name.")] = None,
) -> None:
    """Make an experiment the one that is meant where none is named; without a name, say which one is."""
    stack = choose.experiment(name)
    if name is not None:
        switch.remember(stack.name)
    print(screen.clean(stack.shown))
