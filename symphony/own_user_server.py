"""Serves gRPC to this user only, although every user of a machine can connect to a loopback port.

Pulumi's protocol has no passwords, and a provider runs commands on request. So gRPC listens on a unix socket
in a private folder. A thread accepts the connections of the port, looks up the user of the other end before
it reads a byte, and forwards only connections of this user.
"""

import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from symphony import files, socket_relay

LOOPBACK = "127.0.0.1"
# The second file lists IPv4 connections of IPv6 sockets, such as those of gRPC in Python.
_TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
_ESTABLISHED = "01"
# The kernel writes the table in pieces and may skip a row while other connections come and go.
_LOOKUPS = 5

Address = tuple[str, int]


def serve_at_port(server: Any) -> int:
    """Serve a gRPC server to this user at a loopback port; return the port. Call it before `start()`."""
    listener = socket.create_server((LOOPBACK, 0), backlog=128)
    serve(server, listener, str(files.process_folder()), own_user_only=True)
    return int(listener.getsockname()[1])


def serve(server: Any, listener: socket.socket, folder: str, *, own_user_only: bool) -> None:
    """Serve a gRPC server to the connections of a listener; call it before `start()`.

    Args:
        server: The gRPC server.
        listener: The socket that accepts connections.
        folder: A private folder for the server's own socket.
        own_user_only: Whether to refuse connections of other users, who can reach the listener.
    """
    path = f"{folder}/grpc-{os.urandom(4).hex()}"
    server.add_insecure_port(f"unix:{path}")
    threading.Thread(target=_accept, args=(listener, path, own_user_only), daemon=True).start()


def is_own_user(connection: socket.socket) -> bool:
    """Return whether a process of this user made an accepted connection, from 127.0.0.1 to 127.0.0.1."""
    try:
        local, remote = connection.getsockname(), connection.getpeername()
        if (connection.family, local[0], remote[0]) != (socket.AF_INET, LOOPBACK, LOOPBACK):
            return False
        is_own = _is_from_own_user(remote, local)
        # A pair of addresses belongs to one connection at a time. This connection still lives, so the socket
        # that was looked up is its other end, not that of a later connection from the same port.
        return is_own and connection.getpeername() == remote
    except OSError:
        return False


def _accept(listener: socket.socket, path: str, own_user_only: bool) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, path, own_user_only), daemon=True).start()


def _answer(connection: socket.socket, path: str, own_user_only: bool) -> None:
    with connection, suppress(OSError):
        if not own_user_only or is_own_user(connection):
            with socket.socket(socket.AF_UNIX) as server:
                server.connect(path)
                socket_relay.join(connection, server)


def _is_from_own_user(source: Address, target: Address) -> bool:
    if not next(iter(_TABLES)).exists():
        return _is_from_own_process(source, target)
    for _ in range(_LOOKUPS):
        if (uid := _uid_of(source, target)) is not None:
            return uid == os.geteuid()
        time.sleep(0.001)
    return False


def _uid_of(source: Address, target: Address) -> int | None:
    """Return the user of the open socket that connects source to target; psutil does not report it."""
    for table, prefix in _TABLES.items():
        ends = [prefix + _in_table(source), prefix + _in_table(target), _ESTABLISHED]
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        for row in map(str.split, lines):
            # A closed socket is listed as root's, without an inode.
            if row[1:4] == ends and row[9] != "0":
                return int(row[7])
    return None


def _in_table(address: Address) -> str:
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def _is_from_own_process(source: Address, target: Address) -> bool:
    """Look for the socket among this user's processes: macOS has no table of sockets with their users."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().effective == os.geteuid() and any(
                (connection.laddr, connection.raddr) == (source, target)
                for connection in process.net_connections("tcp4")
            ):
                return True
    return False
