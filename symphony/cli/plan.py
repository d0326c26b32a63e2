"""`symphony plan`: what `up` would do."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from symphony.cli import options, plan_table, screen
from symphony.operations.plan import as_yaml, manifests, plan
from symphony.operations.program_output import ProgramOutput


def command(
    stack: options.Program = None,
    as_json: options.AsJson = False,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Its Kubernetes manifests, for which no cluster is asked.")
    ] = False,
) -> None:
    """Show what `up` would start, restart and stop, and why; nothing is changed.

    Of Secrets, --yaml shows the names.

    Examples:
        symphony plan rl
        symphony plan rl --json
        symphony plan rl.gke --yaml
    """
    # With --json and --yaml, standard output is for the facts alone.
    to = sys.stderr if as_json or yaml else sys.stdout
    output = ProgramOutput().to(lambda line: print(screen.of_program(line), file=to, flush=True))
    if yaml:
        every = manifests(stack, output)
        screen.show_json(every) if as_json else print(as_yaml(every), end="")
        return
    planned = plan(stack, output)
    if as_json:
        screen.show_json(planned.to_json())
    else:
        plan_table.show(planned)
