"""`symphony plan`: what `up` would do."""

from __future__ import annotations

import sys

from symphony.cli import cluster_table, options, plan_table, screen
from symphony.operations.cluster import ClusterPlanned
from symphony.operations.plan import plan
from symphony.operations.program_output import ProgramOutput


def command(stack: options.Program = None, as_json: options.AsJson = False) -> None:
    """Show what `up` would start, restart and stop, and why; nothing is changed.

    Examples:
        symphony plan rl
        symphony plan rl --json
    """
    # With --json, standard output is for the facts alone.
    to = sys.stderr if as_json else sys.stdout
    output = ProgramOutput().to(lambda line: print(screen.of_program(line), file=to, flush=True))
    planned = plan(stack, output)
    if as_json:
        screen.show_json(planned.to_json())
    elif isinstance(planned, ClusterPlanned):
        cluster_table.show(planned)
    else:
        plan_table.show(planned)
