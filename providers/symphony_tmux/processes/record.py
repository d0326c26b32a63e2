"""The record of a process's last start, a file beside its launch file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from symphony import files, paths
from symphony_tmux import experiment_folder, names

NAME = "record.json"
FIELDS: dict[str, type] = {
    "owner": str,
    "path": str,
    "session": str,
    "server": str,
    "pane_id": str,
    "window_id": str,
    "pid": int,
    "start_time": int,
    "boot_id": str,
    "host": str,
    "attempt": int,
    "launched": float,
    "digest": str,
}


def write(outputs: Mapping[str, Any]) -> None:
    record = {key: outputs[key] for key in FIELDS}
    folder = names.process_folder(*(str(outputs[name]) for name in ("server", "session", "path")))
    files.replace(folder / NAME, json.dumps(record).encode())


def read(server: str, session: str, path: str) -> dict[str, Any] | None:
    """Return the record of the last start of a process; None if it is missing or damaged."""
    return _load(names.process_folder(server, session, path) / NAME, server, session)


def of_owner(owner: str) -> Iterator[dict[str, Any]]:
    """Yield the records of all processes of an owner, in all its sessions."""
    for folder in experiment_folder.folders(owner):
        server, session = paths.server_of(folder), folder.name.rpartition(".")[2]
        for file in files.matching(folder, f"{names.PROCESSES}/*/{NAME}"):
            record = _load(file, server, session)
            if record is not None and record["owner"] == owner:
                yield record


def _load(file: Path, server: str, session: str) -> dict[str, Any] | None:
    """Return the record in a file, which its process can write: types and place are checked."""
    try:
        content: object = json.loads(files.read(file, limit=1 << 16))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    fields = cast("dict[str, Any]", content)
    if any(not isinstance(fields.get(name), kind) for name, kind in FIELDS.items()):
        return None
    record = {name: fields[name] for name in FIELDS} | {"server": server, "session": session}
    record["log"] = str(file.with_name("log"))
    return record if names.folder_name(record["path"]) == file.parent.name else None
