"""`symphony setup`: installs missing prerequisites."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import screen
from symphony.operations.setup import get_everything


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and no progress.")] = False,
) -> None:
    """Get what symphony needs on this machine: tmux and the Pulumi engine. What is there is left as it is.

    Examples:
        symphony setup
    """
    if as_json:
        screen.show_json([vars_of(ready) for ready in get_everything(lambda text: None)])
        return
    result = get_everything(lambda text: print(f"  {screen.clean(text)}", flush=True))
    for ready in result:
        print(f"{ready.name} {screen.clean(ready.version)}  {screen.clean(ready.place)}".rstrip())


def vars_of(ready: object) -> dict[str, str]:
    return {name: getattr(ready, name) for name in ("name", "version", "place")}
