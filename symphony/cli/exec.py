"""`symphony exec`: runs a command in a process."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from symphony.cli import arguments
from symphony.errors import UserError
from symphony.operations import access


class Parser(TyperCommand):
    """A command that keeps the words after `--`, unparsed, as the `obj` of the context."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            end = args.index("--")
            args, ctx.obj = args[:end], args[end + 1 :]
        try:
            return super().parse_args(ctx, list(args))
        except typer.TyperException:
            if ctx.obj is not None or not args or args[0].startswith("-"):
                raise
            # The unknown option belongs to the command to run. Parsed as words, the arguments lead to an
            # error that says where -- is missing.
            return super().parse_args(ctx, ["--", *args])


def command(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] PROCESS -- COMMAND...",
            help="The process, or group/process; the command after --.",
            autocompletion=arguments.complete_process,
        ),
    ],
) -> int:
    """Run a command in a process, in this terminal or in a pipe, and return its exit code.

    Examples:
        symphony exec rl learner -- nvidia-smi
        symphony exec rl learner -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
    """
    if context.obj is None and len(words) > 1:
        _refuse_without_dashes(words)
    stack, path = arguments.process(words)
    return access.execute(stack, path, context.obj or (), arguments.streams())


def _refuse_without_dashes(words: Sequence[str]) -> None:
    """Raise UserError, with the right command line, if a command follows the process without `--`."""
    for length in (2, 1):
        try:
            arguments.process(words[:length])
        except UserError:
            continue
        if words[length:]:
            right = shlex.join(["symphony", "exec", *words[:length], "--", *words[length:]])
            raise UserError("-- is missing before the command", remedy=f"Write `{right}`")
        return
