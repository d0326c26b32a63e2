"""Begins a project: the files of a small experiment that runs."""

from __future__ import annotations

import re
from pathlib import Path

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


def init(folder: Path, name: str = "") -> list[Path]:
    """The files made in a folder, of a project of this name or the folder's.

    UserError: one of them is there, or a project around it.
    """
    if (result := workspace.find_usable(folder)) is not None:
        raise UserError(
            f"this is a project already: {result.project}",
            where=str(result.folder),
            remedy="`symphony up` runs its program",
        )
    project = name or re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    workspace.stack_name(project, None)
    contents = {
        "Pulumi.yaml": _PROJECT.format(name=project),
        "__main__.py": _PROGRAM,
        ".gitignore": _IGNORED,
    }
    files = {folder / file: text for file, text in contents.items()}
    for file in files:
        if file.exists() and file.name != ".gitignore":
            raise UserError(f"{file.name} is here already", where=str(folder), remedy="Use an empty folder")
    made = [file for file in files if not file.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for file in made:
        file.write_text(files[file], encoding="utf-8")
    return made
