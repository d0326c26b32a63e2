"""Environment variables in private files for launch files: secrets of a process, services of an experiment.

All processes of an experiment read one file of services: copies in a thousand processes with a thousand
services would make three million variables in the state.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from symphony import files, paths
from symphony_tmux.processes.launch_file import export

# In the folder of a process, for that process alone.
SECRETS = "secrets.sh"
# In the folder of an experiment, for all its processes.
SERVICES = "services.sh"
LIMIT = 1 << 26
_LINE = re.compile(rb"export (\w+)='((?:[^']|'\\'')*)'\n")


def write(file: Path, variables: Mapping[str, str]) -> None:
    """Replace the variables in the file."""
    files.own_folder(file.parent)
    files.replace(file, content(variables))


def read(file: Path) -> dict[str, str]:
    """Return the variables in the file, without damaged lines; empty if it is missing or too large."""
    try:
        pairs = _LINE.findall(files.read(file, limit=LIMIT))
    except OSError:
        return {}
    return {os.fsdecode(name): os.fsdecode(text.replace(b"'\\''", b"'")) for name, text in pairs}


def content(variables: Mapping[str, str]) -> bytes:
    lines = [export(os.fsencode(name), os.fsencode(text)) for name, text in sorted(variables.items())]
    return b"".join(line + b"\n" for line in lines)


def services_file(server: str, session: str) -> Path:
    return paths.experiment_folder(server, session) / SERVICES


def write_services(server: str, session: str, variables: Mapping[str, str]) -> None:
    """Write the variables of the services, which processes read at each start."""
    write(services_file(server, session), variables)


def read_services(server: str, session: str) -> dict[str, str]:
    """Return the variables of the services; empty if the file is missing."""
    return read(services_file(server, session))


def has_services(server: str, session: str, variables: Mapping[str, str]) -> bool:
    """Return whether the file has exactly these variables."""
    try:
        return files.read(services_file(server, session), limit=LIMIT) == content(variables)
    except OSError:
        return False


def with_ports(
    variables: Mapping[str, str], old: Mapping[str, int], new: Mapping[str, int]
) -> dict[str, str]:
    """Return the variables with the new ports of the services in place of the old ones."""
    ports = {str(port): str(new[service]) for service, port in old.items() if new[service] != port}
    updated: dict[str, str] = {}
    for name, text in variables.items():
        prefix, colon, port = text.rpartition(":")
        updated[name] = f"{prefix}{colon}{ports[port]}" if port in ports else text
    return updated


def bound_ports(variables: Mapping[str, str]) -> set[int]:
    """Return the ports on which a process with these variables should listen."""
    services = [name.removesuffix("_BIND") for name in variables if name.endswith("_BIND")]
    return {int(port) for name in services if (port := variables.get(f"{name}_PORT", "")).isdecimal()}
