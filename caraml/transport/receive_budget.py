"""ReceiveBudget: disconnects a peer that has sent far more than the program received.

ZeroMQ stops reading at so many whole messages; it counts neither their bytes nor the parts of one that is not
whole yet. The kernel counts what each connection brought. Once that is much, each frame that the program
receives is asked by which connection it came, until all that was there is received or too much more has
come. Until then a message costs nothing. Only Linux counts, and only TCP.
"""

import contextlib
import fcntl
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
_RECEIVED_AT = 128  # tcpi_bytes_received
_INFO_BYTES = 136
_BYTES_A_MILLISECOND = 4 << 20  # as fast as a peer on the same machine sends
_SHORTEST_MS, _LONGEST_MS = 20, 250
_CONNECTIONS_A_MILLISECOND = 5
_FRAME_OVERHEAD = 64  # more than ZeroMQ adds, so that an honest peer is never short
_DISCARDED = 1 << 20
_READ_AHEAD = 1 << 20  # what ZeroMQ itself may hold beside messages


class _Connection:
    """`settled` of its bytes are received for sure. While `asked_at` is not 0, `owed` bytes must be received
    to settle what there was then.
    """

    def __init__(self, name: object) -> None:
        self.name = name
        self.settled = self.asked_at = self.owed = 0


class ReceiveBudget:
    """The budget of one Wire. `most` is the bytes an honest peer can have waiting, and one frame more, which
    was being received when we began to count. All but `_receive` runs in the background thread.
    """

    def __init__(self, wire: Any, most: int) -> None:
        self._wire: weakref.ref[Any] = weakref.ref(wire)  # a wire that is dropped must go
        self._most = most + _READ_AHEAD
        self._connections: dict[int, _Connection] = {}
        self._asking = False
        self.dropped = 0

    def opened(self, descriptor: int) -> None:
        """Begin to count a connection."""
        with contextlib.suppress(OSError):
            self._connections[descriptor] = _Connection(connection_name(descriptor))

    def end(self) -> None:
        """Stop: the program receives without the wire."""
        self._connections.clear()

    def closed(self, descriptor: int) -> None:
        """Forget a connection that ended."""
        self._connections.pop(descriptor, None)

    def wait_ms(self) -> int:
        """Return after how many milliseconds to look again; -1 while there is no connection."""
        if not self._connections or self._wire() is None:
            return -1
        fill = self._most // 4 // _BYTES_A_MILLISECOND
        return max(_SHORTEST_MS, min(_LONGEST_MS, fill), len(self._connections) // _CONNECTIONS_A_MILLISECOND)

    def look(self) -> None:
        """Count what connections brought; disconnect those over the budget."""
        wire = self._wire()
        if wire is None or sys.platform != "linux":
            return
        asking = False
        for descriptor, connection in list(self._connections.items()):
            if (brought := received(descriptor)) is None:
                self.closed(descriptor)
                continue
            if connection.asked_at and connection.owed <= 0:
                connection.settled, connection.asked_at = connection.asked_at, 0
            if not connection.asked_at and brought - connection.settled > self._most // 4:
                self._ask(wire)
                brought = received(descriptor) or brought
                connection.owed, connection.asked_at = brought - connection.settled, brought
            if connection.asked_at:
                asking = True
                before = connection.asked_at - connection.settled
                if brought - connection.asked_at > before + self._most:
                    self._disconnect(descriptor, connection)
        if self._asking and not asking:
            self._asking = False
            wire.receive_part = wire.receive_plainly

    def _ask(self, wire: Any) -> None:
        if not self._asking:
            self._asking = True
            wire.receive_part = partial(self._receive, wire.receive_plainly)

    def _receive(self, receive: Any, flags: int = 0, copy: bool = True) -> Any:
        """Receive a frame, in place of the wire's `receive_part`, and count it for its connection."""
        frame = receive(flags, False)
        try:
            connection = self._connections.get(int(frame.get(zmq.SRCFD)))
        except (zmq.ZMQError, ValueError):  # a part that came over no connection
            connection = None
        if connection is not None:
            connection.owed -= len(frame) + _FRAME_OVERHEAD
        return frame.bytes if copy else frame

    def _disconnect(self, descriptor: int, connection: _Connection) -> None:
        self.closed(descriptor)
        if disconnect(descriptor, connection.name):
            self.dropped += 1


def connection_name(descriptor: int) -> tuple[Any, Any]:
    """Return both addresses of a connection, which no other has at the same time."""
    with _opened(descriptor) as connection:
        return connection.getsockname(), connection.getpeername()


def received(descriptor: int) -> int | None:
    """Return the bytes that ZeroMQ read from a connection; None where they are not counted, or it is gone."""
    try:
        with _opened(descriptor) as connection:
            info = connection.getsockopt(plain_sockets.IPPROTO_TCP, _TCP_INFO, _INFO_BYTES)
            unread = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            return int(struct.unpack_from("=Q", info, _RECEIVED_AT)[0]) - int.from_bytes(
                unread, sys.byteorder
            )
    except (OSError, struct.error):
        return None


def disconnect(descriptor: int, name: object) -> bool:
    """Disconnect the connection of this name; return False where it is gone."""
    with contextlib.suppress(OSError):
        if connection_name(descriptor) == name:
            with _opened(descriptor) as connection:
                connection.shutdown(plain_sockets.SHUT_RDWR)
                if connection.family != plain_sockets.AF_UNIX:
                    _discard(connection)
            return True
    return False


def _discard(connection: plain_sockets.socket) -> None:
    """Discard the bytes that the kernel holds: ZeroMQ would read it before it sees the end."""
    with contextlib.suppress(OSError):
        while connection.recv(_DISCARDED, plain_sockets.MSG_TRUNC | plain_sockets.MSG_DONTWAIT):
            pass


@contextlib.contextmanager
def _opened(descriptor: int) -> Generator[plain_sockets.socket]:
    """Open a descriptor without a copy, which would keep the connection open."""
    connection = plain_sockets.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()
