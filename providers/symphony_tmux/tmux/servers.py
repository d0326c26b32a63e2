"""Which processes are tmux servers of ours, by a file beside the socket of each; server.py writes them.

One that was started in a process of an experiment holds experiments of its own, and does not end with that.
Supervisors read the files, too.
"""

from __future__ import annotations

from symphony import files, paths
from symphony_tmux.processes import process_table
from symphony_tmux.processes.process_id import Identity


def write(server: str, pid: int) -> None:
    """This process is the server of that name from now on."""
    folder = paths.home() / "tmux"
    content = f"{pid} {process_table.start_of(pid)}\n".encode()
    file = folder / f"{server}.pid"
    if not file.exists() or file.read_bytes() != content:
        files.replace(file, content)


def written() -> set[Identity]:
    """Those that are known, also of servers that have ended."""
    folder = paths.home() / "tmux"
    result: set[Identity] = set()
    for file in files.matching(folder, "*.pid"):
        words = file.read_text().split()
        if len(words) == 2 and all(map(str.isdecimal, words)):
            result.add(Identity(int(words[0]), int(words[1])))
    return result
