"""The variables of an experiment's services, once for all its processes, in a file that launch files read.

sessions writes it, start names it in the launch file of a process, `symphony exec` reads it. With all of them
in every process, the state of a thousand processes with a thousand services would hold three million.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from symphony import files, paths
from symphony_tmux.processes.launch import exports

NAME = "services.sh"


def place(server: str, session: str) -> Path:
    return paths.experiment_folder(server, session) / NAME


def write(server: str, session: str, variables: Mapping[str, str]) -> None:
    """Write these variables; a process reads them whenever it starts."""
    exports.write(place(server, session), variables)


def read(server: str, session: str) -> dict[str, str]:
    """Return the variables that a process reads at its start; none where the file was removed."""
    return exports.read(place(server, session))


def are(server: str, session: str, variables: Mapping[str, str]) -> bool:
    """Return whether the file has exactly these variables."""
    try:
        return files.read(place(server, session), limit=exports.LIMIT) == exports.content(variables)
    except OSError:
        return False


def moved(variables: Mapping[str, str], old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, str]:
    """Return the variables with the ports that services really have."""
    ports = {str(port): str(new[service]) for service, port in old.items() if new[service] != port}
    result: dict[str, str] = {}
    for name, value in variables.items():
        before, colon, port = value.rpartition(":")
        result[name] = f"{before}{colon}{ports[port]}" if port in ports else value
    return result


def bound(variables: Mapping[str, str]) -> set[int]:
    """Return the ports on which a process with these variables is to listen."""
    names = [name.removesuffix("_BIND") for name in variables if name.endswith("_BIND")]
    return {int(port) for name in names if (port := variables.get(f"{name}_PORT", "")).isdecimal()}
