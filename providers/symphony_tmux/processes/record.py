"""The record of a process's last start, a file beside its launch file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from symphony import files, paths
from symphony_tmux import experiment_folder, names

NAME = "record.json"


class _Record(msgspec.Struct):
    owner: str
    path: str
    session: str
    server: str
    pane_id: str
    window_id: str
    pid: int
    start_time: int
    boot_id: str
    host: str
    attempt: int
    launched: float
    digest: str


def write(outputs: Mapping[str, Any]) -> None:
    record = {name: outputs[name] for name in _Record.__struct_fields__}
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
    record = experiment_folder.read_json(file, _Record, limit=1 << 16)
    if record is None or names.folder_name(record.path) != file.parent.name:
        return None
    place = {"server": server, "session": session, "log": str(file.with_name("log"))}
    return {**msgspec.structs.asdict(record), **place}
