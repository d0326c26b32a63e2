"""`symphony exec`: a command in a process; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.inside import run


def command(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] PROCESS -- COMMAND...",
            help="The process, or group/process; after -- the command.",
        ),
    ],
) -> int:
    """Run a command in a process, on the terminal at hand or in a pipe; its exit code is passed on."""
    return run(*words, rest=context.obj)
