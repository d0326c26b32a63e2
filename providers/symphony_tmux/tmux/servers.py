"""The tmux servers of symphony, by a file beside the socket of each; server.py writes them.

One that was started in a process of an experiment holds experiments of its own, and does not end with that.
Supervisors read the files, too.
"""

from __future__ import annotations

from pathlib import Path

from symphony import files, paths
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_table import Identity


def write(server: str, pid: int) -> None:
    """Record that this process is the server of that name."""
    folder = paths.home() / "tmux"
    content = f"{pid} {process_table.start_of(pid)}\n".encode()
    file = folder / f"{server}.pid"
    if _read(file) != content:
        files.replace(file, content)


def of(server: str) -> Identity | None:
    """Return the process that is written down as the server of that name; it may have ended."""
    words = _read(paths.home() / "tmux" / f"{server}.pid").split()
    is_whole = len(words) == 2 and all(map(bytes.isdigit, words))
    return Identity(int(words[0]), int(words[1])) if is_whole else None


def written() -> set[Identity]:
    """Return the recorded servers, also those that have ended."""
    servers = (of(file.stem) for file in files.matching(paths.home() / "tmux", "*.pid"))
    return {identity for identity in servers if identity is not None}


def _read(file: Path) -> bytes:
    """Return what is in the file; nothing where it cannot be read."""
    try:
        return files.read(file, limit=100)
    except OSError:
        return b""
