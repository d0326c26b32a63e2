"""`symphony prune`: removes old runs."""

from typing import Annotated

import typer
from rich.filesize import decimal

from symphony.cli import arguments, screen
from symphony.operations import runs
from symphony.operations.process import seconds
from symphony.plan.problems import count


def command(
    name: arguments.Experiment = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Minimum age of the runs: 12h, 30d, 4w.")
    ] = "30d",
    yes: arguments.Yes = False,
    dry_run: arguments.DryRun = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Remove the records and logs of old runs, of an experiment or of all. Runs in progress are kept.

    Examples:
        symphony prune
        symphony prune rl --older-than 7d -y
    """
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    age = seconds(older_than)
    names = [runs.find(name)] if name else runs.experiments()
    old = {name: numbers for name in names if (numbers := runs.older(name, age))}
    folders = [runs.folder_of(name) / str(number) for name, numbers in old.items() for number in numbers]
    size = runs.size(folders)
    total = f"{count(len(folders), 'run')} of {count(len(old), 'experiment')}, {decimal(size)}"
    if folders and not as_json:
        print(screen.clean(f"{total}: {', '.join(name.stack for name in old)}"))
        if not (yes or dry_run):
            arguments.confirm("Remove them?")
    if not dry_run:
        for folder in folders:
            runs.remove(folder)
    if as_json:
        numbers = {str(name): numbers for name, numbers in old.items()}
        screen.show_json({"runs": numbers, "bytes": size, "removed": not dry_run})
    elif not folders:
        print(f"No run ended more than {older_than} ago.")
    elif not dry_run:
        print(f"Removed {total}.")
