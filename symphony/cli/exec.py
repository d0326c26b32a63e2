"""`symphony exec`: a command in a process; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose
from symphony.errors import UserError
from symphony.operations.exec import execute


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
    stack, path = choose.process(words)
    if not context.obj:
        raise UserError("there is no command", remedy=f"Say it after --, as `symphony exec {path} -- env`")
    return execute(stack, path, context.obj, choose.streams())
