"""`symphony process`: the processes of an experiment; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.processes import show


def command(
    name: Annotated[str | None, typer.Argument(metavar="[EXPERIMENT]", help="Its stack's name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """List the processes of an experiment: group, name, ready, restarts, state."""
    show(name, as_json=as_json)
