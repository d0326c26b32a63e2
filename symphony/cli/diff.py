"""`symphony diff`: shows the differences between two runs."""

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.errors import UserError
from symphony.operations import runs
from symphony.operations.compare import differences, unified


def command(
    name: arguments.Experiment = None,
    first: Annotated[
        int | None,
        typer.Argument(metavar="[FIRST]", help="The first run; by default the run before SECOND."),
    ] = None,
    second: Annotated[
        int | None, typer.Argument(metavar="[SECOND]", help="The second run; by default the last run.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print a unified diff.")] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Compare two runs of an experiment: declaration, settings, code, git.

    Examples:
        symphony diff rl
        symphony diff 6 7
        symphony diff rl 6 7
        symphony diff rl 6 7 --full
    """
    if name is not None and name.isdecimal() and second is None:
        # `diff 6` and `diff 6 7` compare runs of the current experiment.
        name, first, second = None, int(name), first
    experiment = runs.find(name)
    known = runs.numbers(experiment)
    second = second or max(known, default=0)
    # `diff NAME 3` compares run 3 with the last run; `diff NAME` the last two runs.
    if first in (None, second):
        first = max((number for number in known if number < second), default=None)
    if first is None:
        what = f"{experiment.stack} has no two runs to compare"
        raise UserError(what, remedy=f"`symphony history {experiment.stack}` lists the runs")
    before, after = runs.read(experiment, first), runs.read(experiment, second)
    if full:
        for line in unified(experiment, before, after):
            print(screen.clean(line))
        return
    different = differences(experiment, before, after)
    if as_json:
        numbers = [before.number, after.number]
        screen.show_json({"stack": experiment.stack, "runs": numbers, **vars(different)})
        return
    rows = [("declaration", line) for line in different.declaration]
    for key, both in different.settings.items():
        old, new = ("nothing" if value is None else value for value in both)
        rows.append(("setting", f"{key}: {old} -> {new}"))
    for file, change in different.code.items():
        rows.append(("code", file if change == "changed" else f"{file}: {change}"))
    rows += [("git", " -> ".join(different.git))] if different.git else []
    rows += [("not compared", line) for line in different.unknown]
    if rows:
        screen.show_table((f"run {before.number} -> {after.number}", ""), rows)
    else:
        print(screen.clean(f"Runs {before.number} and {after.number} of {experiment.stack} do not differ."))
