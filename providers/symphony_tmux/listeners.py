"""Finds the processes that listen on this machine's TCP ports."""

from __future__ import annotations

import errno
import os
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from symphony_tmux import names
from symphony_tmux.processes import process_table

# The states of sockets in the tables of the kernel.
_LISTEN, _ESTABLISHED = "0A", "01"
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Listeners:
    """The listening TCP sockets of this machine, read once, for the experiment of an owner."""

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

    def is_listening(self, port: int) -> bool:
        """Return whether any process listens on a port."""
        return port in self._pids if self._pids is not None else not _is_free(port)

    def stranger(self, port: int) -> str:
        """Return the name and pid of a listener outside of the experiment, else an empty string.

        A listener whose pid this user cannot read counts as outside.
        """
        if not self.is_listening(port):
            return ""
        pids = (self._pids or {}).get(port, set())
        strangers = {pid for pid in pids if not self._belongs_to_owner(pid)}
        if pids and not strangers:
            return ""
        pid = _first_owner(min(strangers, default=0), port)
        return f"{process_table.command_name(pid)}, pid {pid}" if pid else "a process of another user"

    def _belongs_to_owner(self, pid: int) -> bool:
        """Return whether a process or one of its ancestors has the marker of the owner."""
        seen: set[int] = set()
        while pid > 1 and pid not in seen and (process := process_table.process(pid)) is not None:
            if names.marked_path(self._owner, process.marker) is not None:
                return True
            seen.add(pid)
            pid = process.parent
        return False


def _first_owner(pid: int, port: int) -> int:
    """Return the topmost ancestor with this listening socket, or this process; psutil returns any of them."""
    while (process := process_table.process(pid)) is not None and port in _listening_ports(process.parent):
        pid = process.parent
    return pid


def _listening_ports(pid: int) -> set[int]:
    with suppress(psutil.Error):
        sockets = psutil.Process(pid).net_connections("tcp")
        return {socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN}
    return set()


class Sockets:
    """The TCP sockets of this machine, read once from /proc.

    psutil takes three times as long, which every `symphony process` would wait for.

    Attributes:
        listening: The sockets that listen on each port.
        connected: The sockets that are connected to each port, on the side of the client.
    """

    def __init__(self) -> None:
        self.listening: defaultdict[int, set[str]] = defaultdict(set)
        self.connected: defaultdict[int, set[str]] = defaultdict(set)
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with suppress(OSError), open(table, encoding="ascii") as rows:  # noqa: PTH123
                for row in rows:
                    columns = row.split(None, 10)
                    if columns[3] == _LISTEN:
                        self.listening[_port(columns[1])].add(f"socket:[{columns[9]}]")
                    elif columns[3] == _ESTABLISHED:
                        self.connected[_port(columns[2])].add(f"socket:[{columns[9]}]")

    def missing(self, root: int, ports: Iterable[int]) -> list[int]:
        """Return the ports on which no process of this tree listens."""
        if not process_table.HAS_PROC:
            return _missing_without_proc(root, ports)
        inodes_of = {port: self.listening[port] for port in ports}
        missing = {port for port, inodes in inodes_of.items() if not inodes}
        open_ports = inodes_of.keys() - missing
        for pid in process_table.tree(root) if open_ports else ():
            inodes = set(sockets_of(pid))
            open_ports = {port for port in open_ports if not inodes_of[port] & inodes}
            if not open_ports:
                break
        return [port for port in inodes_of if port in missing or port in open_ports]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def sockets_of(pid: int) -> Iterator[str]:
    """Yield the links to the sockets that a process has open."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if target.startswith("socket:"):
                    yield target


def _missing_without_proc(root: int, ports: Iterable[int]) -> list[int]:
    listening: set[int] = set()
    with suppress(psutil.Error):
        process = psutil.Process(root)
        for member in (process, *process.children(recursive=True)):
            listening |= _listening_ports(member.pid)
    return [port for port in ports if port not in listening]


def ephemeral() -> range:
    """Return the ephemeral ports of the kernel."""
    try:
        low, high = EPHEMERAL_RANGE.read_text().split()
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
