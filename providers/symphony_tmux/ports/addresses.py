"""The variables of an experiment's services, once for all its processes, in a file that launch files read.

sessions writes it, start names it in the launch file of a process, `symphony exec` reads it. With all of them
in every process, the state of a thousand processes with a thousand services would hold three million.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from symphony import paths
from symphony_tmux import files
from symphony_tmux.processes.launch.launch_file import export

NAME = "services.sh"
LINE = re.compile(rb"export (\w+)='((?:[^']|'\\'')*)'\n")


def place(server: str, session: str) -> Path:
    return paths.experiment_folder(server, session) / NAME


def write(server: str, session: str, variables: Mapping[str, str]) -> None:
    """These from now on; a process has those of its start, or of when it was last started again by itself."""
    file = place(server, session)
    files.own_folder(file.parent)
    files.replace(file, _content(variables))


def read(server: str, session: str) -> dict[str, str]:
    """What a process that starts now is told; nothing where somebody removed the file."""
    try:
        content = place(server, session).read_bytes()
    except FileNotFoundError:
        return {}
    found = {name: value.replace(b"'\\''", b"'") for name, value in LINE.findall(content)}
    return {os.fsdecode(name): os.fsdecode(value) for name, value in found.items()}


def are(server: str, session: str, variables: Mapping[str, str]) -> bool:
    """Whether the file is there and tells just these."""
    try:
        return place(server, session).read_bytes() == _content(variables)
    except OSError:
        return False


def bound(variables: Mapping[str, str]) -> set[int]:
    """The ports on which a process with these variables is to listen."""
    names = [name.removesuffix("_BIND") for name in variables if name.endswith("_BIND")]
    return {int(port) for name in names if (port := variables.get(f"{name}_PORT", "")).isdecimal()}


def _content(variables: Mapping[str, str]) -> bytes:
    lines = [export(os.fsencode(name), os.fsencode(value)) for name, value in sorted(variables.items())]
    return b"".join(line + b"\n" for line in lines)
