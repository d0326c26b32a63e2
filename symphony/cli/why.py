"""`symphony why`: the one causal chain of a process; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.chain import show


def command(
    words: Annotated[
        list[str], typer.Argument(metavar="[EXPERIMENT] PROCESS", help="The process, or group/process.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """Tell why a process is as it is: every step from its declaration to now, the first broken one marked."""
    if len(words) > 2:
        raise typer.BadParameter("name one experiment and one process")
    show(*words, as_json=as_json)
