"""What may be named how in tmux, on disk and in the marker."""

from __future__ import annotations

import re
from pathlib import Path

from symphony import paths

NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
OWNER = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+#[A-Za-z0-9]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MARKER = "SYMPHONY_ID"
ROLE = "SYMPHONY_ROLE"
PROCESSES = "processes"
LAUNCH_FILE = "launch.sh"


def is_name(text: str) -> bool:
    """One segment: a session, a group, a process, a server."""
    return NAME.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """`process` or `group/process`."""
    parts = text.split("/")
    return len(parts) <= 2 and all(map(is_name, parts))


def is_owner(text: str) -> bool:
    return OWNER.fullmatch(text) is not None


def is_variable(text: str) -> bool:
    return VARIABLE.fullmatch(text) is not None


def window_name(path: str) -> str:
    return path.replace("/", ":")


def folder_name(path: str) -> str:
    """No two paths share it: the dot is not in the alphabet of names."""
    return path.replace("/", ".")


def process_folder(server: str, session: str, path: str) -> Path:
    """Below a folder of their own: a process may be called `secrets`, `owner` or whatever else is beside."""
    return paths.experiment_folder(server, session) / PROCESSES / folder_name(path)


def marker(owner: str, path: str, attempt: int) -> str:
    """The value of SYMPHONY_ID in the environment of every process of one tree."""
    return f"{owner}/{path}/{attempt}"


def role(marker: str) -> str:
    """The value of SYMPHONY_ROLE in a process with this marker: its name."""
    return marker.rpartition("/")[0].rpartition("/")[2]


def marked_path(owner: str, value: str) -> str | None:
    """The process path in a marker of this owner, None for a marker of anyone else."""
    if not value.startswith(owner + "/"):
        return None
    path, _, attempt = value[len(owner) + 1 :].rpartition("/")
    return path if attempt.isdigit() and is_path(path) else None


def owner_of(value: str) -> tuple[str, str]:
    """Owner and process path in a marker, both empty for what is none."""
    head, _, rest = value.partition("#")
    owner = f"{head}#{rest.partition('/')[0]}"
    path = marked_path(owner, value)
    return (owner, path) if path is not None and is_owner(owner) else ("", "")


def stack(owner: str) -> str:
    """Project and stack of the owner, without the state store."""
    return owner.partition("#")[0]
