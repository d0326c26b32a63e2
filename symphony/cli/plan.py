"""`symphony plan`: what `up` would do; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import plan_table, screen
from symphony.operations.plan import plan


def command(
    stack: Annotated[str | None, typer.Argument(help="The stack; rl and rl.gke run stacks/rl.py.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """Show what `up` would start, restart and stop, and why; nothing is changed."""
    planned = plan(stack)
    if as_json:
        screen.show_json(planned.to_json())
    else:
        plan_table.show(planned)
