"""`symphony ls`: lists the experiments and their states."""

import sys
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.operations.ls import Listed, ls
from symphony.operations.process import BAD, ago

HEAD = ("name", "on", "ready", "state", "age", "")


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Show experiments whose name contains this, or matches it as a glob."
        ),
    ] = None,
    as_json: arguments.AsJson = False,
) -> int:
    """List the experiments that are up.

    Examples:
        symphony ls
        symphony ls sweep
        symphony ls --json
    """
    rows = [row for row in ls() if name is None or name in row.name or fnmatchcase(row.name, name)]
    if as_json:
        screen.show_json(rows)
    elif not rows and name:
        print(screen.clean(f"No experiment is named {name}."))
    elif not rows:
        print("No experiments. Start one with `symphony up NAME`.")
    else:
        screen.show_table(HEAD, map(_cells, rows), styles=("bold",), right=(2,), states=[*map(_style, rows)])
    troubles = dict.fromkeys(row.trouble for row in rows if row.trouble)
    for trouble in troubles:
        names = ", ".join(row.name for row in rows if row.trouble == trouble)
        print(screen.clean(f"symphony: {names}: {trouble}"), file=sys.stderr, flush=True)
    return 1 if troubles else 0


def _cells(row: Listed) -> tuple[str, ...]:
    ready = f"{'?' if row.trouble else row.ready}/{row.total}" if row.kind == "experiment" else ""
    return row.name, row.backend, ready, screen.cut(row.state), ago(row.since), row.hint


def _style(row: Listed) -> str:
    state = row.state.partition(":")[0].split()
    well = row.kind == "cluster" or row.ready == row.total > 0
    return screen.state_style(well=well, bad=not {*BAD}.isdisjoint(state))
