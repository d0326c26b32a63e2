"""The start folder of a process on this machine or a shared disk, and copies into and out of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony.backends.access import Copied, OnBytes
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError


def send(recorded: Recorded, path: str, source: Path, place: str, on_bytes: OnBytes) -> Copied:
    """Copy to a place on this machine or a shared disk, beginning at the folder of the process."""
    from symphony.backends.copying import copy, final_name  # imports tarfile, which only copying needs

    return copy(source, final_name(_placed(recorded, path, place), source.name), on_bytes)


def fetch(recorded: Recorded, path: str, place: str, target: Path, on_bytes: OnBytes) -> Copied:
    """Copy from a place on this machine or a shared disk, beginning at the folder of the process."""
    from symphony.backends.copying import copy

    return copy(Path(_placed(recorded, path, place)), target, on_bytes)


def start_folder(path: str, facts: Mapping[str, Any]) -> Path:
    """Return the start folder of a process. SymphonyError: it is gone."""
    folder = Path(str(facts.get("cwd") or Path.home()))
    if not folder.is_dir():
        raise SymphonyError(f"the start folder of {path} is gone", where=str(folder), remedy="Make it again")
    return folder


def _placed(recorded: Recorded, path: str, place: str) -> str:
    """Return a place as the process sees it; an ending slash says that it is a folder."""
    return os.path.join(start_folder(path, recorded.processes[path]), place)  # noqa: PTH118 - keeps the slash
