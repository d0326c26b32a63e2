"""`symphony scp`: files and folders to and from a process; the command table loads it."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli.copies import show


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] SOURCE TARGET", help="One of them is PROCESS:PATH, the other a path here."
        ),
    ],
) -> None:
    """Copy a file or folder to or from a process. A relative PATH begins at the folder it runs in."""
    if not 2 <= len(words) <= 3:
        raise typer.BadParameter("name what to copy and where to")
    show(*words)
