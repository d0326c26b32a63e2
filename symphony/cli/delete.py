"""`symphony delete`: an experiment and everything it started goes."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose, options, screen
from symphony.cli.progress import Board
from symphony.errors import UserError
from symphony.operations.cluster import refuse_used
from symphony.operations.delete import Deleted, delete
from symphony.operations.orphans import delete_lost, lost
from symphony.operations.stacks import Stack, orphan
from symphony.operations.up import Progress
from symphony.plan.problems import count

Orphans = Annotated[
    bool, typer.Option("--orphans", help="End what runs of experiments whose folder was removed.")
]


def command(
    name: options.Experiment = None,
    yes: options.Force = False,
    orphans: Orphans = False,
    dry_run: options.DryRun = False,
) -> int:
    """Stop an experiment and everything it started; its logs go with it.

    Examples:
        symphony delete rl
        symphony delete rl -y
        symphony delete --orphans
    """
    if orphans:
        return _delete_lost(name, yes)
    stack = orphan(name) or choose.experiment(name)
    whole = (stack.name.stack, f"{stack.name.project}/{stack.name.stack}", str(stack.name))
    if yes and name is not None and name not in whole:
        raise UserError(
            f"no experiment is called {name}",
            remedy=f"If {stack.shown} is meant: `symphony delete {stack.shown} -y`",
        )
    if stack.cluster is not None:
        refuse_used(stack)
    total = len(stack.recorded.processes) if stack.recorded else 0
    if dry_run:
        what = "the cluster would be deleted" if stack.cluster else f"{_processes(total)} would be stopped"
        print(screen.clean(f"{stack.shown}: {what}."))
        return 0
    if not yes:
        choose.require_terminal()
        if not choose.confirmed(
            f"Delete the cluster {stack.shown} with its node pools and images?"
            if stack.cluster
            else f"Stop {stack.shown}, {_processes(total)}, and delete its logs?"
        ):
            print("Nothing was changed.")
            return 1
    take_down(stack)
    return 0


def _processes(number: int) -> str:
    return count(number, "process", "processes")


def _delete_lost(name: str | None, yes: bool) -> int:
    if name is not None:
        raise UserError("--orphans takes no name", remedy="`symphony delete --orphans` ends all of them")
    result = lost()
    if not result:
        print("No process runs without a record.")
        return 0
    if not yes:
        choose.require_terminal()
        for each in result:
            print(screen.clean(f"{each.owned.owner}: {', '.join(each.owned.paths)}"))
        if not choose.confirmed("End all of these?"):
            print("Nothing was changed.")
            return 1
    for each in result:
        delete_lost(each)
        ended = count(len(each.owned.paths), "process", "processes")
        print(screen.clean(f"{each.owned.owner}: {ended} stopped."))
    return 0


def take_down(stack: Stack) -> None:
    """Delete an experiment and show how that goes."""
    with Board(list(stack.recorded.processes) if stack.recorded else []) as board:
        for event in delete(stack):
            match event:
                case Progress():
                    board.tell(event)
                case Deleted():
                    board.end()
                    show_end(event)


def show_end(deleted: Deleted) -> None:
    """One line for an experiment that is gone."""
    if deleted.cluster:
        gone = f"the cluster {deleted.cluster} and its node pools"
        print(screen.clean(f"{deleted.stack} is deleted: {gone}, in {deleted.seconds:.1f} s."))
        return
    strays = f", and {deleted.strays} that no state knew of" if deleted.strays else ""
    gone = count(deleted.processes, "process", "processes")
    print(screen.clean(f"{deleted.stack} is deleted: {gone} stopped{strays}, in {deleted.seconds:.1f} s."))
