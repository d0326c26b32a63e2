"""The record of a process's last start, a file beside its launch file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from symphony import files, paths
from symphony_tmux import experiment_folder, names

NAME = "record.json"
KEPT: dict[str, type] = {
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
    kept = {key: outputs[key] for key in KEPT}
    folder = names.process_folder(*(str(outputs[name]) for name in ("server", "session", "path")))
    files.replace(folder / NAME, json.dumps(kept).encode())


def read(server: str, session: str, path: str) -> dict[str, Any] | None:
    """Return what was started last for this process; None where nothing was, or the file is damaged."""
    return _load(names.process_folder(server, session, path) / NAME, server, session)


def of_owner(owner: str) -> Iterator[dict[str, Any]]:
    """Yield the record of every process of an owner, whatever its session is called."""
    for folder in experiment_folder.folders(owner):
        server, session = paths.server_of(folder), folder.name.rpartition(".")[2]
        for file in files.matching(folder, f"{names.PROCESSES}/*/{NAME}"):
            known = _load(file, server, session)
            if known is not None and known["owner"] == owner:
                yield known


def _load(file: Path, server: str, session: str) -> dict[str, Any] | None:
    """Return the record in a file that its process can write: every field has its type, the place decides."""
    try:
        known: object = json.loads(files.read(file, limit=1 << 16))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(known, dict):
        return None
    fields = cast("dict[str, Any]", known)
    if any(not isinstance(fields.get(name), kind) for name, kind in KEPT.items()):
        return None
    kept = {name: fields[name] for name in KEPT} | {"server": server, "session": session}
    kept["log"] = str(file.with_name("log"))
    return kept if names.folder_name(kept["path"]) == file.parent.name else None
