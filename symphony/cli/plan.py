"""`symphony plan`: shows the changes that `up` would make."""

import sys
from typing import Annotated

import typer

from symphony.cli import arguments, plan_table, screen
from symphony.operations import selected_stack
from symphony.operations.plan import ProgramOutput, as_yaml, manifests, plan_of


def command(
    stack: arguments.Program = None,
    as_json: arguments.AsJson = False,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print Kubernetes manifests without contacting a cluster.")
    ] = False,
    config: arguments.Config = None,
) -> None:
    """Show what `up` would start, restart and stop, and why, without changing anything.

    Secret values are omitted.

    Examples:
        symphony plan rl
        symphony plan rl -c lr=0.3
        symphony plan rl --json
        symphony plan rl.gke --yaml
    """
    # With --json or --yaml, only the document goes to standard output; the program's output goes to stderr.
    to = sys.stderr if as_json or yaml else sys.stdout
    output = ProgramOutput(warnings=True)
    output.to(lambda line: print(screen.program_line(line), file=to, flush=True))
    selected = selected_stack.select(stack, config)
    with selected_stack.guard_settings_file(selected, dry_run=True):
        if yaml:
            objects = manifests(selected, output)
            screen.show_json(objects) if as_json else print(as_yaml(objects), end="")
            return
        planned = plan_of(selected, output)
    screen.show_json(planned.to_json()) if as_json else plan_table.show(planned)
