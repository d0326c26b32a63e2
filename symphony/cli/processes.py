"""Shows the processes of an experiment; `process` calls it, and the command table without a parser."""

from __future__ import annotations

from dataclasses import asdict

from symphony.cli import choose, screen
from symphony.operations.process import processes, state

HEAD = ("group", "name", "ready", "restarts", "state")


def show(name: str | None = None, *, as_json: bool = False) -> None:
    """Group, name, ready, restarts and state of each, as a table or as facts."""
    statuses = processes(choose.experiment(name))
    if as_json:
        screen.show_json([{**asdict(each), "group": each.group, "name": each.name} for each in statuses])
        return
    rows = [(each.group, each.name, int(each.ready), each.restarts, state(each)) for each in statuses]
    screen.show_table(HEAD, rows, styles=("", "bold"), right=(2, 3))
