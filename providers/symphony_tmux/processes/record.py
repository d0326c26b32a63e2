"""What was last started for a process, kept beside its launch file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from symphony import files, paths
from symphony_tmux import names

NAME = "record.json"
KEPT = (
    "owner",
    "path",
    "session",
    "server",
    "pane_id",
    "window_id",
    "pid",
    "start_time",
    "boot_id",
    "host",
    "attempt",
    "launched",
    "digest",
)


def write(outputs: Mapping[str, Any]) -> None:
    kept = {key: outputs[key] for key in KEPT}
    folder = names.process_folder(*(str(outputs[name]) for name in ("server", "session", "path")))
    files.replace(folder / NAME, json.dumps(kept).encode())


def read(server: str, session: str, path: str) -> dict[str, Any] | None:
    return _load(names.process_folder(server, session, path) / NAME)


def of_owner(owner: str) -> Iterator[dict[str, Any]]:
    """The records of every process of one owner, whatever its session is called."""
    for file in files.matching(paths.experiments(), f"*/{names.PROCESSES}/*/{NAME}"):
        result = _load(file)
        if result is not None and result.get("owner") == owner:
            yield result


def facts(owner: str) -> dict[str, dict[str, Any]]:
    """path -> the record of each process of one owner, with where its log is."""
    return {
        str(each["path"]): {
            **each,
            "log": str(names.process_folder(each["server"], each["session"], each["path"]) / "log"),
        }
        for each in of_owner(owner)
    }


def _load(file: Path) -> dict[str, Any] | None:
    try:
        result: object = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", result) if isinstance(result, dict) else None
