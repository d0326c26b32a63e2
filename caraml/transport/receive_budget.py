"""ReceiveBudget: disconnects peers that have sent far more than the program has received.

ZeroMQ's high-water mark counts whole messages, but neither their bytes nor the parts of an incomplete
message. The kernel counts the bytes of each TCP connection (on Linux). Only when a connection has brought
much does caraml look up the connection of each frame that the program receives, until the program has caught
up or the connection is over the budget.
"""

import contextlib
import fcntl
import os
import socket as plain_sockets
import struct
import sys
import termios
import weakref
from collections.abc import Generator
from functools import partial
from typing import Any

import zmq

_TCP_INFO = 11
_BYTES_RECEIVED_AT = 128  # tcpi_bytes_received
_INFO_BYTES = 136
_BYTES_PER_MS = 4 << 20  # as fast as a peer on the same machine sends
_SHORTEST_MS, _LONGEST_MS = 20, 250
_CONNECTIONS_PER_MS = 5
_FRAME_OVERHEAD = 64  # more than ZeroMQ's framing, so that an honest peer is never over the budget
_DISCARD_BYTES = 1 << 20
_READ_AHEAD = 1 << 20  # bytes in the buffers of ZeroMQ


class _Connection:
    """Counts the bytes of one connection.

    The program has received the first `settled` bytes. While frames are counted, `counted_until` is the
    number of bytes that had arrived when counting began, and `outstanding` of these are not received yet.
    """

    def __init__(self, name: object) -> None:
        self.name = name
        self.settled = self.counted_until = self.outstanding = 0


class ReceiveBudget:
    """The budget of one Wire: the bytes that a peer may have waiting, and what libzmq reads ahead.

    The program's threads call `__init__`, `end` and `_receive_counted`, the background thread all others.
    """

    def __init__(self, wire: Any, max_unread: int) -> None:
        self._wire: weakref.ref[Any] = weakref.ref(wire)  # must not keep the wire alive
        self._max_unread = max_unread + _READ_AHEAD
        self._connections: dict[int, _Connection] = {}
        self._counting = False
        self.dropped = 0

    def opened(self, descriptor: int) -> None:
        """Start to count a connection."""
        with contextlib.suppress(OSError):
            self._connections[descriptor] = _Connection(connection_name(descriptor))

    def end(self) -> bool:
        """Stop counting and return True: nothing counts what the program receives without the wire."""
        self._connections.clear()
        return True

    def closed(self, descriptor: int) -> None:
        """Forget a connection that ended."""
        self._connections.pop(descriptor, None)

    def wait_ms(self) -> int:
        """Return the milliseconds from the last look to the next; -1 while there is no connection."""
        if not self._connections or self._wire() is None:
            return -1
        fill = self._max_unread // 4 // _BYTES_PER_MS
        return max(_SHORTEST_MS, min(_LONGEST_MS, fill), len(self._connections) // _CONNECTIONS_PER_MS)

    def look(self) -> None:
        """Count the bytes of the connections, and disconnect those over the budget."""
        wire = self._wire()
        if wire is None or sys.platform != "linux":
            return
        counting = False
        for descriptor, connection in list(self._connections.items()):
            if (brought := received(descriptor)) is None:
                self.closed(descriptor)
                continue
            if connection.counted_until and connection.outstanding <= 0:
                connection.settled, connection.counted_until = connection.counted_until, 0
            if not connection.counted_until and brought - connection.settled > self._max_unread // 4:
                self._count_frames(wire)
                brought = received(descriptor) or brought
                connection.outstanding, connection.counted_until = brought - connection.settled, brought
            if connection.counted_until:
                counting = True
                # The program may have received these bytes already, which was not counted.
                before = connection.counted_until - connection.settled
                if brought - connection.counted_until > before + self._max_unread:
                    self._disconnect(descriptor, connection)
        if self._counting and not counting:
            self._counting = False
            wire.receive_part = wire.receive_uncounted

    def _count_frames(self, wire: Any) -> None:
        if not self._counting:
            self._counting = True
            wire.receive_part = partial(self._receive_counted, wire.receive_uncounted)

    def _receive_counted(self, receive: Any, flags: int = 0, copy: bool = True) -> Any:
        """Receive a frame in place of the wire's `receive_part`, and count its bytes."""
        frame = receive(flags, False)
        try:
            connection = self._connections.get(int(frame.get(zmq.SRCFD)))
        except (zmq.ZMQError, ValueError):  # inproc
            connection = None
        if connection is not None:
            connection.outstanding -= len(frame) + _FRAME_OVERHEAD
        return frame.bytes if copy else frame

    def _disconnect(self, descriptor: int, connection: _Connection) -> None:
        self.closed(descriptor)
        if disconnect(descriptor, connection.name):
            self.dropped += 1


def connection_name(descriptor: int) -> tuple[Any, Any, int]:
    """Return the local and the remote address of a connection, and its inode, which identify it."""
    # All connections over ipc to one address have the same addresses.
    with _socket_of(descriptor) as connection:
        return connection.getsockname(), connection.getpeername(), os.fstat(descriptor).st_ino


def received(descriptor: int) -> int | None:
    """Return the bytes that ZeroMQ has read from a connection; None if unknown."""
    try:
        with _socket_of(descriptor) as connection:
            info = connection.getsockopt(plain_sockets.IPPROTO_TCP, _TCP_INFO, _INFO_BYTES)
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            return int(struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)[0]) - int.from_bytes(
                unread, sys.byteorder
            )
    except (OSError, struct.error):
        return None


def disconnect(descriptor: int, name: object) -> bool:
    """Shut a connection down; return False if the descriptor is another connection's by now."""
    with contextlib.suppress(OSError):
        if connection_name(descriptor) == name:
            with _socket_of(descriptor) as connection:
                connection.shutdown(plain_sockets.SHUT_RDWR)
                if connection.family != plain_sockets.AF_UNIX:
                    _discard(connection)
            return True
    return False


def _discard(connection: plain_sockets.socket) -> None:
    """Discard the bytes in the kernel's buffer, which ZeroMQ would read first."""
    with contextlib.suppress(OSError):
        while connection.recv(_DISCARD_BYTES, plain_sockets.MSG_TRUNC | plain_sockets.MSG_DONTWAIT):
            pass


@contextlib.contextmanager
def _socket_of(descriptor: int) -> Generator[plain_sockets.socket]:
    """Return the socket of a descriptor, without duplicating it."""
    connection = plain_sockets.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()
