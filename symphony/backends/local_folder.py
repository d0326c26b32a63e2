"""Copies files to and from the start folder of a process, on this machine or a shared disk."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony.backends.access import Copied, OnBytes
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError


def send(recorded: Recorded, path: str, source: Path, place: str, on_bytes: OnBytes) -> Copied:
    """Copy a local file or folder to a place, which is relative to the start folder of the process."""
    from symphony.backends.copying import copy, final_name  # imports tarfile, which only copying needs

    return copy(source, final_name(_absolute_place(recorded, path, place), source.name), on_bytes)


def fetch(recorded: Recorded, path: str, place: str, target: Path, on_bytes: OnBytes) -> Copied:
    """Copy a place, which is relative to the start folder of the process, to a local target."""
    from symphony.backends.copying import copy

    return copy(Path(_absolute_place(recorded, path, place)), target, on_bytes)


def start_folder(path: str, process: Mapping[str, Any]) -> Path:
    """Return the start folder of a process.

    Raises:
        SymphonyError: The folder no longer exists.
    """
    folder = Path(str(process.get("cwd") or Path.home()))
    if not folder.is_dir():
        what = f"the start folder of {path} no longer exists"
        raise SymphonyError(what, where=str(folder), remedy="Create that folder again")
    return folder


def _absolute_place(recorded: Recorded, path: str, place: str) -> str:
    """Return a place as an absolute path; a slash at its end, which marks a folder, is kept."""
    return os.path.join(start_folder(path, recorded.processes[path]), place)  # noqa: PTH118 - keeps the slash
