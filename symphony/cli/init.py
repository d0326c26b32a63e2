"""`symphony init`: creates the files of a small project."""

import re
from pathlib import Path
from typing import Annotated

import typer

from symphony.cli import screen
from symphony.engine import workspace
from symphony.errors import UserError

# Quoted, since YAML would read 2026-11-29 as a date.
_PROJECT = 'name: "{name}"\nruntime: python\n'
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
_DISPATCHER = '''"""Each stack runs the program in stacks/ that it is named after: `symphony up hello`."""

from symphony import run_program

run_program("stacks")
'''
# Pulumi.STACK.yaml files are in the folder of the programs.
_SETTINGS = "stackConfigDir: stacks\n"
_IGNORED = "__pycache__/\n.venv/\n"


def command(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of the project; by default the folder's name.")
    ] = "",
    several: Annotated[
        bool, typer.Option("--stacks", help="Prepare for several programs, in the folder stacks.")
    ] = False,
) -> None:
    """Create a project in this folder: a Pulumi.yaml, a small program, a .gitignore.

    Examples:
        mkdir lab && cd lab && symphony init && symphony up
        symphony init --stacks && symphony up hello
    """
    program = "stacks/hello.py" if several else "__main__.py"
    for file in _init(Path.cwd(), name, program):
        print(screen.clean(file))
    print(f"Run it with `symphony up{' hello' if several else ''}`; the program is {program}.")


def _init(folder: Path, name: str, program: str) -> list[str]:
    """Write the files, but for an existing .gitignore, and return the names of those written."""
    if (around := workspace.find_usable(folder)) is not None:
        raise UserError(
            f"this folder already belongs to project {around.project}",
            where=str(around.folder),
            remedy="Run `symphony up` there, or choose another folder",
        )
    project = name or re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    # Refuses an invalid name.
    workspace.project_name(project, folder)
    contents = {
        "Pulumi.yaml": _PROJECT.format(name=project),
        program: _PROGRAM,
        ".gitignore": _IGNORED,
    }
    if program != "__main__.py":
        contents["Pulumi.yaml"] += _SETTINGS
        contents["__main__.py"] = _DISPATCHER
    for file in contents:
        if (folder / file).exists() and file != ".gitignore":
            raise UserError(f"{file} already exists", where=str(folder), remedy="Use an empty folder")
    missing = [file for file in contents if not (folder / file).exists()]
    for file in missing:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(contents[file], encoding="utf-8")
    return missing
