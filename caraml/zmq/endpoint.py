"""Endpoint: what every pattern shares: the socket, deadlines, counters and closing."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import zmq

from caraml.errors import AuthenticationError, MalformedMessageError, PeerLostError, ZmqTimeoutError
from caraml.key_folder import Keys
from caraml.limits import Limits
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import Wire

log = logging.getLogger("caraml")

_PAST_DEADLINE = 0.1  # seconds; what has come by then is still looked through


class SocketOptions(TypedDict, total=False):
    """The keywords every class passes on to ZmqSocket."""

    address: object
    host: str | None
    port: int | str | None
    service: str | None
    context: zmq.Context[Any] | None
    verbose: bool
    hwm: int | None
    keys: str | Path | Keys | None
    limits: Limits
    heartbeat: float | None


class Endpoint:
    """One end of a pattern. `socket` is its ZmqSocket; use it as a context manager, or `close()` it.

    `rejected` counts the messages that were dropped as malformed or over a limit, `last_rejection` is the
    last one's error; `denied` holds the last refused peers' errors (AuthenticationError).
    """

    def __init__(
        self,
        mode: int,
        bind: bool,
        callback: Callable[[ZmqSocket], object] | None,
        timeout: float,
        options: SocketOptions,
    ) -> None:
        self.rejected = 0
        self.last_rejection: MalformedMessageError | None = None
        self._mode, self._bind, self._callback, self._options = mode, bind, callback, options
        self._open(timeout)

    def _open(self, timeout: float) -> None:
        """Make the socket and bind or connect it; a client does so again after a timeout."""
        self.socket = ZmqSocket(socket_mode=self._mode, bind=self._bind, **self._options)
        self._wire = Wire(self.socket, timeout)
        try:
            self._prepare()
            raw = self.socket.unwrap()
            own = raw.rcvhwm
            if self._callback is not None:
                self._callback(self.socket)
            if raw.rcvhwm == own:  # else the program does without our bound, or has its own
                self._wire.bound_unread()
            self.socket.establish()
        except BaseException:
            self._wire.close(0)
            raise

    def _prepare(self) -> None:
        """What a class sets on its socket before the program's callback and before bind or connect."""

    @property
    def address(self) -> str:
        """Where it is bound or connected to."""
        return self.socket.address

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.socket.state}>"

    def fileno(self) -> int:
        """Return the descriptor for `zmq.Poller`, as pyzmq's socket gives it.

        ZeroMQ signals it once for several messages: receive with `timeout=0` until ZmqTimeoutError.
        """
        return self.socket.unwrap().fileno()

    @property
    def denied(self) -> list[AuthenticationError]:
        """The last peers that were refused (when binding), or the refusals met (when connecting)."""
        return list(self.socket.link.denied)

    def close(self, linger: float | None = None) -> None:
        """Close; unsent messages get `linger` seconds in the background (None: for ever, 0: none).

        That is no promise of delivery: see ZmqSender for one.
        """
        self._wire.close(linger)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reject(self, error: MalformedMessageError) -> None:
        self.rejected += 1
        self.last_rejection = error
        if self.rejected == 1:
            log.warning("%s: message rejected: %s (further ones are only counted)", self.address, error)

    def _late(self, waited_for: str, timeout: float) -> ZmqTimeoutError:
        """Return the error of a deadline; it names the messages that were rejected."""
        if self.rejected:
            waited_for = f"{waited_for} ({self.rejected} rejected, the last: {self.last_rejection})"
        return self._wire.late(waited_for, timeout)

    def _after_rejection(self, error: MalformedMessageError) -> None:
        """What a class owes the peer of a rejected message."""

    def _next(
        self,
        decode: Callable[[Any, Any], Any],
        timeout: float | None,
        waiting_for: str,
        receive: Callable[[float, str], tuple[Any, list[zmq.Frame]]] | None = None,
    ) -> Any:
        """The next message that can be decoded; others are rejected and counted.

        `receive` gives one message, its first frame and the others; the wire's own unless given.
        """
        wire = self._wire
        receive = receive or wire.receive
        timeout = asked = wire.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout if timeout >= 0 else 0.0
        try:
            wire.turns.pop()  # enter() and leave(), without the calls
        except IndexError:
            raise wire.why_not() from None
        try:
            while True:
                try:
                    return decode(*receive(timeout, waiting_for))
                except MalformedMessageError as error:
                    self._reject(error)
                    self._after_rejection(error)
                except PeerLostError:
                    raise
                except ZmqTimeoutError:
                    raise self._late(waiting_for, asked) from None
                if deadline:
                    left = deadline - time.monotonic()
                    if left < -_PAST_DEADLINE:
                        raise self._late(waiting_for, asked)
                    timeout = max(0.0, left)
        finally:
            wire.turns.append(1)
