"""`symphony init`: the files of a small project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from symphony.cli import screen
from symphony.engine import workspace
from symphony.errors import UserError

_PROJECT = "name: {name}\nruntime: python\n"
_PROGRAM = '''"""A server and two clients. Run them with `symphony up`."""

from symphony import Experiment

ASK = "import os, urllib.request as r; print(r.urlopen('http://' + os.environ['SYMPH_WEB_ADDR']).status)"

with Experiment() as experiment:
    serve = "exec python3 -um http.server --directory $(mktemp -d) --bind $SYMPH_WEB_BIND $SYMPH_WEB_PORT"
    experiment.new_process("server", cmds=[serve]).binds("web")
    loop = f'while sleep 1; do python3 -c "{ASK}"; done'
    for number in range(2):
        experiment.new_process(f"client-{number}", cmds=[loop]).connects("web")
'''
_IGNORED = "__pycache__/\n.venv/\n"


def command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of the project; the folder's by default.")
    ] = "",
) -> None:
    """Make a project in this folder: a Pulumi.yaml, a small program, a .gitignore.

    Examples:
        mkdir lab && cd lab && symphony init && symphony up
    """
    for file in _init(Path.cwd(), name):
        print(screen.clean(file.name))
    print("Run it with `symphony up`; the program is __main__.py.")


def _init(folder: Path, name: str) -> list[Path]:
    """Write the missing files and return them."""
    if (around := workspace.find_usable(folder)) is not None:
        raise UserError(
            f"this is a project already: {around.project}",
            where=str(around.folder),
            remedy="`symphony up` runs its program",
        )
    project = name or re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    workspace.stack_name(project, None)
    contents = {
        folder / "Pulumi.yaml": _PROJECT.format(name=project),
        folder / "__main__.py": _PROGRAM,
        folder / ".gitignore": _IGNORED,
    }
    for file in contents:
        if file.exists() and file.name != ".gitignore":
            raise UserError(f"{file.name} exists already", where=str(folder), remedy="Use an empty folder")
    missing = [file for file in contents if not file.exists()]
    for file in missing:
        file.write_text(contents[file], encoding="utf-8")
    return missing
