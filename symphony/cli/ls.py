"""`symphony ls`: the experiments and how they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from symphony.cli import options, screen
from symphony.operations.ls import Listed, ls
from symphony.operations.times import ago

_NONE = "No experiments. Start one with `symphony up NAME`."
HEAD = ("name", "on", "ready", "state", "age", "")


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only those with this in their name; or a pattern.")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """List the experiments: every stack of the store on which something was started.

    Examples:
        symphony ls
        symphony ls sweep
        symphony ls --json
    """
    listed = [each for each in ls() if name is None or name in each.name or fnmatchcase(each.name, name)]
    if as_json:
        screen.show_json([each.to_json() for each in listed])
    elif not listed:
        print(screen.clean(f"No experiment is named {name}.") if name else _NONE)
    else:
        screen.show_table(HEAD, [_row(each) for each in listed], styles=("bold",), right=(2,))
    troubles = dict.fromkeys(each.trouble for each in listed if each.trouble)
    for trouble in troubles:
        _tell(trouble, [each for each in listed if each.trouble == trouble])
    return 1 if troubles else 0


def _row(each: Listed) -> tuple[str, ...]:
    ready = f"{'?' if each.trouble else each.ready}/{each.total}" if each.kind == "experiment" else ""
    return each.name, each.backend, ready, each.state, ago(each.since), each.hint


def _tell(trouble: str, unknown: Sequence[Listed]) -> None:
    """One line for all that is in the same place."""
    names = ", ".join(each.name for each in unknown)
    print(screen.clean(f"symphony: {names}: {trouble}"), file=sys.stderr, flush=True)
