"""The processes that listen on the TCP ports of this machine."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import psutil

from symphony_tmux import names
from symphony_tmux.processes import process_table

RANGE_OF_THE_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Listeners:
    """The listening sockets of this machine, read once; the owner's are told from those of strangers."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._pids: dict[int, set[int]] | None = {}
        try:
            sockets = psutil.net_connections("tcp")
        except psutil.AccessDenied:
            # macOS shows them to root only.
            self._pids = None
            return
        for connection in sockets:
            if connection.status == psutil.CONN_LISTEN and connection.laddr:
                pids = self._pids.setdefault(connection.laddr.port, set())
                pids.update([connection.pid] if connection.pid else [])

    def is_heard(self, port: int) -> bool:
        """Return whether any process listens on a port."""
        return port in self._pids if self._pids is not None else not _is_free(port)

    def stranger(self, port: int) -> str:
        """Return the name and pid of a listener that is not of the owner's experiment, else nothing."""
        if not self.is_heard(port):
            return ""
        pids = (self._pids or {}).get(port, set())
        strangers = {pid for pid in pids if not self._is_ours(pid)}
        if pids and not strangers:
            return ""
        pid = min(strangers, default=0)
        return f"{process_table.command_name(pid)}, pid {pid}" if pid else "a process of another user"

    def _is_ours(self, pid: int) -> bool:
        """Return whether a process, or one above it, has the marker of the owner."""
        seen: set[int] = set()
        while pid > 1 and pid not in seen and (process := process_table.process(pid)) is not None:
            if names.marked_path(self._owner, process.marker) is not None:
                return True
            seen.add(pid)
            pid = process.parent
        return False


def ephemeral() -> range:
    """Return the ports that the kernel hands out by itself."""
    try:
        low, high = RANGE_OF_THE_KERNEL.read_text().split()
    except (OSError, ValueError):
        return range(49152, 65536)
    return range(int(low), int(high) + 1)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
