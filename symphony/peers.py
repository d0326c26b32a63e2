"""A gRPC server that answers only this user: any user of a machine can dial a port of the loopback.

Pulumi's protocol has no passwords, and what it asks of a provider runs commands. So each call is judged by
whose socket is at the other end, before anything of it is read.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import grpc

# Bound here: the host of dynamic providers puts server() in its place.
_build: Callable[..., Any] = grpc.server
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOPBACK = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"
_ESTABLISHED = "01"
# The kernel writes the table in pieces and can leave out a row while others come and go.
_TRIES = 5
_DENIED = "symphony: refused a call by another user"


def server(executor: Executor, options: Sequence[tuple[str, Any]] = (), **more: Any) -> grpc.Server:
    """What grpc.server makes, deaf to other users; for one port on 127.0.0.1 or unix sockets."""
    guard = _OwnUserOnly()
    made = _build(executor, options=options, interceptors=(guard,), **more)
    add = made.add_insecure_port

    def add_insecure_port(address: str) -> int:
        port = add(address)
        if not address.startswith("unix:"):
            guard.port = port
        return port

    made.add_insecure_port = add_insecure_port
    return made


class _OwnUserOnly(grpc.ServerInterceptor):
    def __init__(self) -> None:
        self.port = 0
        # The sockets of connections that were found to be ours, by the port of their other end.
        self._known: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        make: Callable[..., Any] = grpc.unary_unary_rpc_method_handler
        if handler is None or handler.unary_unary is None:
            return None  # Nobody needs a stream of us: unimplemented.
        return make(
            self._guarded(handler.unary_unary, handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _guarded(self, behavior: Callable[..., Any], read: Callable[[bytes], Any]) -> Callable[..., Any]:
        """The handler of a call that comes as bytes."""

        def answer(request: bytes, context: grpc.ServicerContext) -> Any:
            if not self._is_own(context.peer()):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, _DENIED)
            return behavior(read(request), context)

        return answer

    def _is_own(self, peer: str) -> bool:
        if peer.startswith("unix:"):
            return True  # Whoever gets at the socket's folder, which is private.
        port = int(peer.rpartition(":")[2])
        with self._lock:
            known = self._known.get(port)
        if known is not None and _inode(known[0]) == known[1]:
            return True
        ours = _accepted(self.port, port)
        # Looked at twice: the row in the table is of this connection only if it lived all the while.
        if ours is None or not _is_own_socket(port, self.port) or _inode(ours[0]) != ours[1]:
            return False
        with self._lock:
            self._known[port] = ours
        return True


def _accepted(port: int, peer: int) -> tuple[int, int] | None:
    """Our end of the connection between two ports: file descriptor and inode."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208
        inode = _inode(int(name))
        if inode and _ports(int(name)) == (port, peer):
            return int(name), inode
    return None


def _inode(descriptor: int) -> int:
    """That of a socket; 0 for all else."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return 0
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else 0


def _ports(descriptor: int) -> tuple[int, int] | None:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family in (socket.AF_INET, socket.AF_INET6):
                return copy.getsockname()[1], copy.getpeername()[1]
    except OSError:
        pass
    return None


def _is_own_socket(source: int, target: int) -> bool:
    """Whether the connection from source to target of the loopback was made by this user."""
    if not _TABLES[0].exists():
        return _is_of_an_ancestor(source, target)
    for _ in range(_TRIES):
        if (owner := _owner(source, target)) is not None:
            return owner == os.geteuid()
        time.sleep(0.001)
    return False


def _owner(source: int, target: int) -> int | None:
    local, remote = f"{_LOOPBACK}:{source:04X}", f"{_LOOPBACK}:{target:04X}"
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if local in line and remote in line:
                row = line.split()
                # One that is closed already is shown as root's, without an inode.
                if (
                    row[1].endswith(local)
                    and row[2].endswith(remote)
                    and row[3] == _ESTABLISHED
                    and row[9] != "0"
                ):
                    return int(row[7])
    return None


def _is_of_an_ancestor(source: int, target: int) -> bool:
    """Without /proc (macOS) one sees the sockets of one's own processes only; the engine is above us."""
    import psutil

    for process in psutil.Process().parents():
        try:
            connections = process.net_connections("tcp")
        except psutil.Error:
            continue
        if any(
            connection.laddr
            and connection.raddr
            and (connection.laddr.port, connection.raddr.port) == (source, target)
            for connection in connections
        ):
            return True
    return False
