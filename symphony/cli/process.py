"""`symphony process`: the processes of an experiment and how each is."""

from __future__ import annotations

from dataclasses import asdict

from symphony.cli import choose, options, screen
from symphony.operations.process import is_well, processes, state

HEAD = ("group", "name", "ready", "restarts", "state")


def command(name: options.Experiment = None, as_json: options.AsJson = False) -> None:
    """List the processes of an experiment: group, name, ready, restarts, state.

    Examples:
        symphony process rl
        symphony process rl --json
    """
    statuses = processes(choose.experiment(name))
    if as_json:
        screen.show_json([{**asdict(each), "group": each.group, "name": each.name} for each in statuses])
        return
    rows = [(each.group, each.name, int(is_well(each)), each.restarts, state(each)) for each in statuses]
    screen.show_table(HEAD, rows, styles=("", "bold"), right=(2, 3))
