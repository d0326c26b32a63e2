"""`symphony init`: the files of a project that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from symphony.cli import screen
from symphony.operations.init import init


def command(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Of the project; else the folder's.")] = "",
) -> None:
    """Make a project in this folder: a Pulumi.yaml, a small program that runs, a .gitignore.

    Examples:
        mkdir lab && cd lab && symphony init && symphony up
    """
    for file in init(Path.cwd(), name):
        print(screen.clean(file.name))
    print("Run it with `symphony up`; the program is __main__.py.")
