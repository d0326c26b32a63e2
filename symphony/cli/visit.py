"""`symphony visit`: a service in the browser; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.browser import visit


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXPERIMENT] [SERVICE]", help="The service; none means the exposed one."),
    ] = None,
    url_only: Annotated[
        bool, typer.Option("--url-only", "-u", help="Print the URL and open no browser.")
    ] = False,
) -> int:
    """Open a service in the browser. One inside a cluster is forwarded to this machine until Ctrl-C."""
    if len(words or ()) > 2:
        raise typer.BadParameter("name one experiment and one service")
    return visit(*(words or ()), url_only=url_only)
