"""Who listens on which TCP port of this machine."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from symphony_tmux.processes.process_table import HAS_PROC, PROC

LISTEN = "0A"


def listening(ports: Collection[int]) -> dict[int, set[int]]:
    """The ports of these that somebody listens on, each with the socket inodes (none known without /proc)."""
    if not HAS_PROC:
        return {port: set() for port in ports if not _is_free(port)}
    result: dict[int, set[int]] = {}
    for table in ("tcp", "tcp6"):
        for port, inode in _rows(PROC / "net" / table):
            if port in ports:
                result.setdefault(port, set()).add(inode)
    return result


def holders(inodes: Collection[int]) -> dict[int, set[int]]:
    """The pids that hold each of these sockets; one pass over /proc, other users' processes stay unknown."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    result: dict[int, set[int]] = {}
    if not wanted or not HAS_PROC:
        return result
    for entry in os.listdir(PROC):  # noqa: PTH208 - as strings, fast
        if entry.isdigit():
            for inode in _sockets(int(entry), wanted):
                result.setdefault(inode, set()).add(int(entry))
    return result


def ephemeral() -> range:
    """The ports the kernel hands out by itself."""
    try:
        low, high = (PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return range(49152, 65536)
    return range(int(low), int(high) + 1)


def _rows(table: Path) -> list[tuple[int, int]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [(int(row[1].rpartition(":")[2], 16), int(row[9])) for row in rows if row[3] == LISTEN]


def _sockets(pid: int, wanted: Mapping[str, int]) -> set[int]:
    result: set[int] = set()
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for entry in os.listdir(folder):  # noqa: PTH208 - as strings, fast
            with suppress(OSError):
                inode = wanted.get(os.readlink(f"{folder}/{entry}"))  # noqa: PTH115
                if inode is not None:
                    result.add(inode)
    return result


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
