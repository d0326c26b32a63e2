"""`symphony ssh`: a shell in a process; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose
from symphony.operations.ssh import login


def command(
    words: Annotated[
        list[str], typer.Argument(metavar="[EXPERIMENT] PROCESS", help="The process, or group/process.")
    ],
) -> int:
    """Work in a process: its window in tmux (C-b d leaves), a login shell in its container on Kubernetes."""
    stack, path = choose.process(words)
    return login(stack, path, choose.streams())
