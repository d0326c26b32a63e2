"""`symphony plan`: what `up` would do."""

from __future__ import annotations

from symphony.cli import options, plan_table, screen
from symphony.operations.plan import plan


def command(stack: options.Program = None, as_json: options.AsJson = False) -> None:
    """Show what `up` would start, restart and stop, and why; nothing is changed.

    Examples:
        symphony plan rl
        symphony plan rl --json
    """
    planned = plan(stack)
    if as_json:
        screen.show_json(planned.to_json())
    else:
        plan_table.show(planned)
