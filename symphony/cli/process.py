"""`symphony process`: the state of the processes of an experiment."""

from __future__ import annotations

from dataclasses import asdict

from symphony.cli import arguments, screen
from symphony.operations.process import is_well, processes, state

HEAD = ("group", "name", "ready", "restarts", "node", "state")


def command(name: arguments.Experiment = None, as_json: arguments.AsJson = False) -> None:
    """List the processes of an experiment: group, name, ready, restarts, node, state.

    Examples:
        symphony process rl
        symphony process rl --json
    """
    statuses = processes(arguments.experiment(name))
    if as_json:
        screen.show_json(
            [{**asdict(status), "group": status.group, "name": status.name} for status in statuses]
        )
        return
    rows = [
        (
            status.group,
            status.name,
            int(is_well(status)),
            status.restarts,
            status.node,
            screen.cut(state(status)),
        )
        for status in statuses
    ]
    screen.show_table(HEAD, rows, styles=("", "bold"), right=(2, 3))
