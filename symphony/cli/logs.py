"""`symphony logs`: the output of processes; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.output import show


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT] [PROCESS]...", help="Processes, or process groups; none means all."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    since: Annotated[str | None, typer.Option("--since", "-s", help="Only the last 90s, 5m, 2h, 1d.")] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-t", min=0, help="Only the last lines of each.")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Put the time before each line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show what the processes of an experiment print, merged in the order of time."""
    show(*(words or ()), follow=follow, since=since, tail=tail, times=times, as_json=as_json)
