"""`symphony ls`: the experiments and how they are; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.listing import show


def command(
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """List the experiments: every stack of the store on which something was started."""
    show(as_json=as_json)
