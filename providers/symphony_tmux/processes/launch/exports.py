"""Variables in a private file of their own, which launch files read and so can we."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from symphony import files
from symphony_tmux.processes.launch.launch_file import export

# In the folder of a process: what only that process is to see.
SECRETS = "secrets.sh"
LIMIT = 1 << 26
_LINE = re.compile(rb"export (\w+)='((?:[^']|'\\'')*)'\n")


def write(file: Path, variables: Mapping[str, str]) -> None:
    """Write these variables in place of those before."""
    files.own_folder(file.parent)
    files.replace(file, content(variables))


def read(file: Path) -> dict[str, str]:
    """Return the variables in the file; none where it was removed or damaged."""
    try:
        result = _LINE.findall(files.read(file, limit=LIMIT))
    except OSError:
        return {}
    return {os.fsdecode(name): os.fsdecode(value.replace(b"'\\''", b"'")) for name, value in result}


def content(variables: Mapping[str, str]) -> bytes:
    lines = [export(os.fsencode(name), os.fsencode(value)) for name, value in sorted(variables.items())]
    return b"".join(line + b"\n" for line in lines)
