"""`symphony delete`: stop an experiment and delete everything it started."""

from __future__ import annotations

from dataclasses import asdict

from symphony.cli import arguments, screen
from symphony.cli.progress import Board, lasted
from symphony.errors import UserError
from symphony.operations.cluster import refuse_used
from symphony.operations.delete import Deleted, delete
from symphony.operations.stacks import Stack, find_orphan
from symphony.operations.up import Progress
from symphony.plan.problems import count


def command(
    name: arguments.Experiment = None,
    yes: arguments.Force = False,
    dry_run: arguments.DryRun = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Stop an experiment and delete everything it started, with its logs.

    Examples:
        symphony delete rl
        symphony delete rl -y
    """
    stack = find_orphan(name) or arguments.experiment(name)
    full_names = (stack.name.stack, f"{stack.name.project}/{stack.name.stack}", str(stack.name))
    if yes and name is not None and name not in full_names:
        raise UserError(
            f"no experiment is called {name}",
            remedy=f"To delete {stack.shown}: `symphony delete {stack.shown} -y`",
        )
    if stack.cluster is not None:
        refuse_used(stack)
    if dry_run:
        what = "delete the cluster" if stack.cluster else f"stop {size(stack)}"
        print(screen.clean(f"{stack.shown}: would {what}."))
        return 0
    if not yes:
        arguments.confirm(
            f"Delete the cluster {stack.shown} with its node pools and images?"
            if stack.cluster
            else f"Delete {stack.shown}: stop {size(stack)} and delete the logs?"
        )
    with Board(list(stack.processes), quiet=as_json) as board:
        for event in delete(stack):
            match event:
                case Progress():
                    board.update(event)
                case Deleted():
                    board.end()
                    screen.show_json(asdict(event)) if as_json else print(summary(event))
    return 0


def size(stack: Stack) -> str:
    """Return `3 processes`."""
    return count(len(stack.processes), "process", "processes")


def summary(deleted: Deleted) -> str:
    """Return the line that tells the end of a deletion."""
    took = f" in {lasted(deleted.seconds)}" if lasted(deleted.seconds) else ""
    if deleted.cluster:
        return screen.clean(
            f"Deleted {deleted.stack}: the cluster {deleted.cluster} and its node pools{took}."
        )
    strays = f" and {deleted.strays} that no state recorded" if deleted.strays else ""
    stopped = count(deleted.processes, "process", "processes")
    return screen.clean(f"Deleted {deleted.stack}: stopped {stopped}{strays}{took}.")
