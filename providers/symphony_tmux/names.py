"""Names and paths of processes: their syntax, their folders, and the marker in their environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

from symphony import paths

NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
OWNER = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+#[A-Za-z0-9]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MARKER = "SYMPHONY_ID"
ROLE = "SYMPHONY_ROLE"
PROCESSES = "processes"
# The window of the experiment's supervisor, for order, probes and ends (see supervisor.py).
SUPERVISOR = "symphony"
LAUNCH_FILE = "launch.sh"
# The file with the hold of a process (see hold.py).
HOLD = "hold"
# Why a process waits from its start until it has claimed its GPUs (see gpus.py).
NOT_CLAIMED = "for GPUs that are not claimed yet"


def is_name(text: str) -> bool:
    """Return whether this is a name of a session, group, process or server."""
    return NAME.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Return whether this is `process` or `group/process`."""
    parts = text.split("/")
    return len(parts) <= 2 and all(map(is_name, parts))


def is_owner(text: str) -> bool:
    return OWNER.fullmatch(text) is not None


def window_name(path: str) -> str:
    return path.replace("/", ":")


def folder_name(path: str) -> str:
    """Return the folder name of a path; names have no dot, so no two paths share it."""
    return path.replace("/", ".")


def process_folder(server: str, session: str, path: str) -> Path:
    """Return the folder of a process; all are in one subfolder, since a process may be called `secrets`."""
    return paths.experiment_folder(server, session) / PROCESSES / folder_name(path)


def is_held(log: str) -> bool:
    """Return whether the process with this log has a hold file."""
    return os.path.lexists(f"{log.removesuffix('log')}{HOLD}")


def marker(owner: str, path: str, attempt: int) -> str:
    """Return the value of SYMPHONY_ID for all processes of a process's tree."""
    return f"{owner}/{path}/{attempt}"


def role(marker: str) -> str:
    """Return the value of SYMPHONY_ROLE in a process with this marker: its name."""
    return marker.rpartition("/")[0].rpartition("/")[2]


def marked_path(owner: str, value: str) -> str | None:
    """Return the process path in a marker; None if it is another owner's marker."""
    if not value.startswith(owner + "/"):
        return None
    path, _, attempt = value[len(owner) + 1 :].rpartition("/")
    return path if attempt.isdigit() and is_path(path) else None


def owner_of(value: str) -> tuple[str, str]:
    """Return (owner, process path) of a marker; both empty if it is not a marker."""
    head, _, rest = value.partition("#")
    owner = f"{head}#{rest.partition('/')[0]}"
    path = marked_path(owner, value)
    return (owner, path) if path is not None and is_owner(owner) else ("", "")


def stack(owner: str) -> str:
    """Return project and stack of the owner, without the state store."""
    return owner.partition("#")[0]
