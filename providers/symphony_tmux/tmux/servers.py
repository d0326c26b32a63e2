"""The records of symphony's tmux servers: a file with the pid beside the socket of each.

A server that was started in a process of an experiment has experiments of its own, and must not end with that
process. Supervisors read the files, too.
"""

from __future__ import annotations

from pathlib import Path

from symphony import files, paths
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Identity


def write(server: str, pid: int) -> None:
    """Record the process of a server."""
    folder = paths.home() / "tmux"
    content = f"{pid} {process_table.start_of(pid)}\n".encode()
    file = folder / f"{server}.pid"
    if _read(file) != content:
        files.replace(file, content)


def of(server: str) -> Identity | None:
    """Return the recorded process of a server, which may have ended."""
    fields = _read(paths.home() / "tmux" / f"{server}.pid").split()
    is_valid = len(fields) == 2 and all(map(bytes.isdigit, fields))
    return Identity(int(fields[0]), int(fields[1])) if is_valid else None


def recorded() -> set[Identity]:
    """Return the recorded processes of all servers, which may have ended."""
    servers = (of(file.stem) for file in files.matching(paths.home() / "tmux", "*.pid"))
    return {identity for identity in servers if identity is not None}


def _read(file: Path) -> bytes:
    """Return the content of a file; empty if it cannot be read."""
    try:
        return files.read(file, limit=100)
    except OSError:
        return b""
