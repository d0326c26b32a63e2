"""`symphony ls`: the experiments and how they are."""

from __future__ import annotations

from symphony.cli import options, screen
from symphony.operations.ls import ls
from symphony.operations.times import ago

HEAD = ("name", "on", "ready", "state", "age", "")


def command(as_json: options.AsJson = False) -> None:
    """List the experiments: every stack of the store on which something was started.

    Examples:
        symphony ls
        symphony ls --json
    """
    listed = ls()
    if as_json:
        screen.show_json([each.to_json() for each in listed])
        return
    if not listed:
        print("No experiments. Start one with `symphony up NAME`.")
        return
    rows = [
        (each.name, each.world, f"{each.ready}/{each.total}", each.state, ago(each.since), each.hint)
        for each in listed
    ]
    screen.show_table(HEAD, rows, styles=("bold",), right=(2,))
