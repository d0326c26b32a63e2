"""`symphony exec`: a command in a process."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from symphony.cli import choose, complete
from symphony.errors import UserError
from symphony.operations.exec import execute


class Parser(TyperCommand):
    """What stands after -- is the command, whatever it looks like; it is the `obj` of the context."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            end = args.index("--")
            args, ctx.obj = args[:end], args[end + 1 :]
        return super().parse_args(ctx, args)


def command(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] PROCESS -- COMMAND...",
            help="The process, or group/process; after -- the command.",
            autocompletion=complete.process,
        ),
    ],
) -> int:
    """Run a command in a process, on the terminal at hand or in a pipe; its exit code is passed on.

    Examples:
        symphony exec rl learner -- nvidia-smi
        symphony exec rl learner -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
    """
    stack, path = choose.process(words)
    if not context.obj:
        raise UserError(
            "there is no command", remedy=f"Write it after --, as in `symphony exec {path} -- env`"
        )
    return execute(stack, path, context.obj, choose.streams())
