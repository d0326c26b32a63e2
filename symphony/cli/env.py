"""`symphony env`: the exports with which a plain `pulumi` uses the same state."""

from __future__ import annotations

import contextlib
import shlex
import sys
from io import TextIOWrapper
from typing import Annotated, cast

import typer

from symphony.cli import screen
from symphony.operations.env import exports


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of exports.")] = False,
) -> None:
    """Print the exports with which a plain `pulumi` uses the same state.

    Examples:
        eval "$(symphony env)"
    """
    values = exports()
    if as_json:
        screen.show_json(values)
        return
    # A folder on PATH may have any bytes in its name, and none may be another one for the shell.
    with contextlib.suppress(AttributeError, ValueError):
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="surrogateescape")
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")
    # The engine writes state that all may read, unless it is told otherwise.
    print("umask 077")
