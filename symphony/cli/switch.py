"""`symphony switch`: sets or prints the current experiment."""

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.engine import workspace
from symphony.operations import stacks


def command(
    name: arguments.Experiment = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Allow an experiment that is not up.")] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Set the current experiment, used when a command names none. Without NAME, print it.

    Inside a project, a command that names none uses only experiments of that project.

    Examples:
        symphony switch rl
        symphony switch
    """
    if force and name is not None and stacks.find_exact(name) is None:
        chosen = workspace.stack_name(name, workspace.find_usable())
    else:
        stack = stacks.find(name)
        if stack.recorded is None and not force:
            error = stack.not_up()
            error.remedy += ", or add -f to choose it anyway"
            raise error
        chosen = stack.name
    if name is not None:
        stacks.set_current(chosen)
    facts = {"name": chosen.stack, "project": chosen.project}
    screen.show_json(facts) if as_json else print(screen.clean(chosen.stack))
