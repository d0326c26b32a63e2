"""`symphony process`: the processes of an experiment and how each is."""

from __future__ import annotations

from dataclasses import asdict

from symphony.cli import choose, options, screen
from symphony.operations.process import is_well, processes, state

HEAD = ("group", "name", "ready", "restarts", "node", "state")


def command(name: options.Experiment = None, as_json: options.AsJson = False) -> None:
    """List the processes of an experiment: group, name, ready, restarts, node, state.

    Examples:
        symphony process rl
        symphony process rl --json
    """
    statuses = processes(choose.experiment(name))
    if as_json:
        screen.show_json([{**asdict(each), "group": each.group, "name": each.name} for each in statuses])
        return
    rows = [(e.group, e.name, int(is_well(e)), e.restarts, e.node, state(e)) for e in statuses]
    # tmux has one machine.
    kept = [i for i, head in enumerate(HEAD) if head != "node" or any(each.node for each in statuses)]
    shown = [[row[i] for i in kept] for row in rows]
    screen.show_table([HEAD[i] for i in kept], shown, styles=("", "bold"), right=(2, 3))
