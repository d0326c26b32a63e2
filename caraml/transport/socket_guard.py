"""SocketGuard: which thread may use a socket now, how long a call blocks, and how it is closed."""

import logging
import time
from collections import deque
from typing import Any, SupportsIndex

import zmq

from caraml import process
from caraml.errors import (
    ClosedError,
    ConcurrentUseError,
    ForkedError,
    PeerLostError,
    SocketError,
    ZmqTimeoutError,
)
from caraml.transport.socket import ZmqSocket

log = logging.getLogger("caraml")

SLICE_MS = 250
ZERO_COPY = 1 << 18
CLOSE_WAIT = 1.0
_FOREVER = -1


class _NoMoreTurns(list[int]):
    """The turns of a socket that is being closed: given back, never taken."""

    __slots__ = ()

    def pop(self, index: SupportsIndex = -1, /) -> int:
        raise IndexError


class SocketGuard:
    """One socket, of one thread at a time. Timeouts are seconds, negative waits for ever, None is the
    socket's own.

    What the fast path cannot tell is checked in slices of a quarter second: that a peer refuses us,
    or that the interpreter exits.
    """

    __slots__ = (
        "__weakref__",
        "_forked",
        "_former",
        "_wait_in",
        "_wait_out",
        "alone",
        "closing",
        "exiting",
        "fetched",
        "in_turn",
        "link",
        "lost_before",
        "put",
        "receive_part",
        "receive_plainly",
        "slice_ms",
        "small",
        "socket",
        "timeout",
        "turns",
    )

    def __init__(self, socket: ZmqSocket, timeout: float = _FOREVER) -> None:
        raw = socket.unwrap()
        self.socket = socket
        self.link = socket.link
        self.timeout = timeout
        self.exiting = self.closing = False
        self.fetched: deque[Any] | None = None  # what an endpoint gives without a turn; a fork empties it
        self.small = min(ZERO_COPY, socket.limits.message_bytes + 1)  # bytes from which a look is taken
        self.slice_ms = SLICE_MS
        self.lost_before: int | None = None
        # REQ and REP refuse to send while parts of a message are left: what receives them need not ask.
        self.in_turn = self.alone = socket.socket_mode in (zmq.REQ, zmq.REP)
        self.put: Any = super(
            zmq.Socket, raw
        ).send  # below pyzmq's draft-option layer: a third of a call's time
        self.receive_part: Any = super(zmq.Socket, raw).recv
        self.receive_plainly = self.receive_part  # which a ReceiveBudget replaces for a while
        self._wait_in = self._wait_out = SLICE_MS
        raw.rcvtimeo = raw.sndtimeo = SLICE_MS
        socket.sliced(SLICE_MS, SLICE_MS)
        self.turns: list[int] = [1]
        self._former: list[int] = []
        self._forked = False
        process.close_at_exit(self)

    def enter(self) -> None:
        """Take the socket for this thread. Raises ConcurrentUseError, ForkedError, ClosedError."""
        try:
            self.turns.pop()
        except IndexError:
            raise self.why_not() from None

    def leave(self) -> None:
        """Give the socket back."""
        self.turns.append(1)

    def why_not(self) -> Exception:
        """Why there is no turn to take."""
        if self._forked:
            return ForkedError(f"{self.socket.address}: made before the fork; make a new one in the child")
        if self.closing or self.socket.unwrap().closed:
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return ConcurrentUseError(
            f"{self.socket.address}: used by two threads at the same time; give each thread its own socket"
        )

    def after_slice(self) -> None:
        """Look around, and wait whole slices from now on. Raises what `check` does."""
        self.check()
        self.wait_in(self.slice_ms)

    def check(self) -> None:
        """What a wait looks at once a slice. Raises AuthenticationError, PeerLostError, ClosedError."""
        if process.closing() and not self.exiting:
            raise SystemExit  # ends the daemon thread that waits here, without a word
        if self.closing:
            raise self.why_not()
        if self.link.fault is not None:
            raise self.link.fault
        if self.lost_before is not None and self.link.lost > self.lost_before:
            raise PeerLostError(self.socket.address, "an answer, and the connection was lost")

    def wait_in(self, milliseconds: int) -> None:
        """Set how long one receive blocks."""
        if self._wait_in != milliseconds:
            self.socket.unwrap().rcvtimeo = self._wait_in = milliseconds
            self.socket.sliced(self._wait_in, self._wait_out)

    def wait_out(self, milliseconds: int) -> None:
        """Set how long one send blocks."""
        if self._wait_out != milliseconds:
            self.socket.unwrap().sndtimeo = self._wait_out = milliseconds
            self.socket.sliced(self._wait_in, self._wait_out)

    def late(self, waited_for: str, timeout: float) -> ZmqTimeoutError:
        """The deadline's error; caused by the last refused peer if there was one."""
        error = ZmqTimeoutError(self.socket.address, waited_for, timeout)
        if self.link.denied:
            error.__cause__ = self.link.denied[-1]
        return error

    def failed(self, error: zmq.ZMQError) -> Exception:
        """What ZeroMQ's own error is to the caller."""
        if error.errno in (zmq.ENOTSOCK, zmq.ETERM):
            return ClosedError(f"{self.socket.address}: the socket is closed")
        return SocketError(error.errno, f"{self.socket.address}: {error.strerror}")

    def close(self, linger: float | None = None) -> None:
        """Close; `linger` seconds for what is unsent. Another thread's call ends with ClosedError.

        Raises ConcurrentUseError where that call does not end: a program's own deserializer that takes long.
        """
        give_up = time.monotonic() + CLOSE_WAIT
        while self.link.queued and linger != 0 and not self.closing and time.monotonic() < give_up:
            time.sleep(0.001)  # the first peer may be on its way: only the monitor tells, until the close
        give_up = time.monotonic() + CLOSE_WAIT
        while not self._closed_now(linger):
            if time.monotonic() > give_up:
                raise ConcurrentUseError(
                    f"{self.socket.address}: could not close: a call in another thread does not return"
                )
            time.sleep(0.001)

    def _closed_now(self, linger: float | None) -> bool:
        """Close if no other thread is in a call; have that call end if one is."""
        if self._forked or self.socket.unwrap().closed:
            return True
        if not self.closing:
            self.closing = True
            self._former, self.turns = self.turns, _NoMoreTurns()
        if not self.turns:  # not given back to what is there now
            try:
                self._former.pop()
            except IndexError:
                return False
        self.turns.clear()
        if self.link.queued and linger != 0:
            log.warning(
                "%s: closed with %d messages unsent: no peer has bound this address; they are lost unless "
                "one does before this process ends",
                self.socket.address,
                self.link.queued,
            )
        self.socket.close(None if linger is None else int(linger * 1000))
        return True

    def at_exit(self, stage: int) -> bool:
        """Close with the linger of an exit; True to be called again, as while a first peer may still come."""
        if stage != 2:
            return False
        if self.link.queued and process.exiting_for() < process.EXIT_LINGER_MS / 1000:
            return True
        return not self._closed_now(process.EXIT_LINGER_MS / 1000)

    def in_use(self) -> bool:
        """Whether another thread still uses the socket."""
        return not self.turns and not self.socket.unwrap().closed

    def forget(self) -> None:
        """In a forked child: refuse every further use."""
        self._forked = True
        self.turns.clear()
        if self.fetched is not None:
            self.fetched.clear()


def _forget() -> None:
    for guard in process.live(SocketGuard):
        guard.forget()


process.after_fork(_forget)
