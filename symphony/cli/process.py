"""`symphony process`: the processes of an experiment; the command table loads it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from symphony.cli import choose, screen
from symphony.operations.process import processes, state

HEAD = ("group", "name", "ready", "restarts", "state")


def command(
    name: Annotated[str | None, typer.Argument(metavar="[EXPERIMENT]", help="Its stack's name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
) -> None:
    """List the processes of an experiment: group, name, ready, restarts, state."""
    statuses = processes(choose.experiment(name))
    if as_json:
        screen.show_json([{**asdict(each), "group": each.group, "name": each.name} for each in statuses])
        return
    rows = [(each.group, each.name, int(each.ready), each.restarts, state(each)) for each in statuses]
    screen.show_table(HEAD, rows, styles=("", "bold"), right=(2, 3))
