"""Endpoint and LoopingEndpoint: the base classes of all patterns."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import zmq

from caraml import process
from caraml.errors import (
    AuthenticationError,
    ClosedError,
    ForkedError,
    MalformedMessageError,
    PeerLostError,
    ZmqTimeoutError,
)
from caraml.keys import Keys
from caraml.limits import Limits
from caraml.transport.socket import ZmqSocket
from caraml.transport.wire import Wire

log = logging.getLogger("caraml")

_PAST_DEADLINE = 0.1  # seconds after a deadline in which messages that have arrived are still read
_TICK = 0.1


class SocketOptions(TypedDict, total=False):
    """The keywords that every class passes on to ZmqSocket."""

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


class EndpointOptions(SocketOptions, total=False):
    """The keywords that every pattern takes."""

    callback: Callable[[ZmqSocket], object] | None
    timeout: float


class Endpoint:
    """The base class of all patterns; use it as a context manager, or `close()` it.

    `socket` is its ZmqSocket, and `callback(socket)` sets options before it is bound or connected. `rejected`
    counts the messages that were dropped as malformed or over a limit, and `last_rejection` is the error of
    the last one.
    """

    def __init__(
        self,
        mode: int,
        bind: bool,
        options: EndpointOptions,
    ) -> None:
        self.rejected = 0
        self.last_rejection: MalformedMessageError | None = None
        self._callback, timeout = options.pop("callback", None), options.pop("timeout", -1)
        self._mode, self._bind = mode, bind
        self._options: SocketOptions = options
        self._open(timeout)

    def _open(self, timeout: float) -> None:
        """Create the socket and bind or connect it; a client does so again after a timeout."""
        self.socket = ZmqSocket(socket_mode=self._mode, bind=self._bind, **self._options)
        self._wire = Wire(self.socket, timeout)
        try:
            self._prepare()
            raw = self.socket.unwrap()
            default_hwm = raw.rcvhwm
            if self._callback is not None:
                self._callback(self.socket)
            if raw.rcvhwm == default_hwm:  # else the callback has set the high-water mark
                self._wire.bound_unread()
            self.socket.establish()
        except BaseException:
            self._wire.close(0)
            raise

    def _prepare(self) -> None:
        """Set options of the socket before the program's callback."""

    @property
    def address(self) -> str:
        """Return the address it is bound or connected to."""
        return self.socket.address

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.socket.state}>"

    def fileno(self) -> int:
        """Return the file descriptor of the pyzmq socket, for `zmq.Poller`.

        ZeroMQ signals it once for several messages: receive with `timeout=0` until ZmqTimeoutError.
        """
        return self.socket.unwrap().fileno()

    @property
    def denied(self) -> list[AuthenticationError]:
        """Return the errors of the last failed handshakes, of peers (binding) or our own (connecting)."""
        return list(self.socket.link.denied)

    def close(self, linger: float | None = None) -> None:
        """Close; unsent messages get `linger` seconds in the background (0: none).

        None is as the socket's option `linger` says: for ever, but none for a ZmqClient. This does not
        guarantee delivery; ZmqSender does.
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

    def _timeout_error(self, waited_for: str, timeout: float) -> ZmqTimeoutError:
        """Return the error for a missed deadline, with the number of rejected messages."""
        if self.rejected:
            waited_for = f"{waited_for} ({self.rejected} rejected, the last: {self.last_rejection})"
        return self._wire.timeout_error(waited_for, timeout)

    def _after_rejection(self, error: MalformedMessageError) -> None:
        """Answer the peer whose message was rejected; most patterns do not."""

    def _next(
        self,
        decode: Callable[[Any, Any], Any],
        timeout: float | None,
        waiting_for: str,
        receive: Callable[[float, str], tuple[Any, list[zmq.Frame]]] | None = None,
    ) -> Any:
        """Return the next message that can be decoded; reject others.

        `receive` replaces `Wire.receive`.
        """
        wire = self._wire
        receive = receive or wire.receive
        timeout = asked = wire.timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout if timeout >= 0 else 0.0
        try:
            wire.turns.pop()  # `with wire`, without its calls
        except IndexError:
            raise wire.unusable_error() from None
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
                    raise self._timeout_error(waiting_for, asked)  # noqa: B904 - its cause is the refused peer
                if deadline:
                    left = deadline - time.monotonic()
                    if left < -_PAST_DEADLINE:
                        raise self._timeout_error(waiting_for, asked)
                    timeout = max(0.0, left)
        finally:
            wire.turns.append(1)


class LoopingEndpoint(Endpoint):
    """An Endpoint with a loop around `recv`; `handler_failures` counts the exceptions of handlers."""

    handler_failures = 0
    _thread: threading.Thread | None = None
    _stopped = False

    def recv(self, timeout: float | None = None) -> Any:
        """Return the next message. `timeout` in seconds, negative for ever; by default the socket's."""
        raise NotImplementedError

    def start_loop(self, handler: Callable[[Any], Any], blocking: bool = False) -> threading.Thread | None:
        """Call `handler(message)` for every message, in this thread (`blocking`) or in the returned one.

        The thread is a daemon: join it in a program that does nothing else. An exception of the handler is
        logged and counted, and the loop continues.

        Raises:
            RuntimeError: The loop runs in a thread already.
            ConcurrentUseError: Another thread uses the socket.
            ClosedError: The socket is closed.
            ForkedError: The process was forked since the socket was opened.
        """
        if self._looping():
            raise RuntimeError("loop is already running")
        with self._wire:  # raises in the caller, not in the thread
            self._stopped = False
        if blocking:
            self._run(handler, True)
            return None
        self._thread = threading.Thread(
            target=self._run, args=(handler, False), name="caraml-loop", daemon=True
        )
        process.close_at_exit(self)
        self._thread.start()
        return self._thread

    def _looping(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End the loop after the current message; call it from any thread, also from the handler."""
        self._stopped = True

    def _join(self, timeout: float) -> None:
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def close(self, linger: float | None = None) -> None:
        """Stop the loop and close; `linger` as for Endpoint.close."""
        self._join(1.0)
        super().close(linger)

    def _run(self, handler: Callable[[Any], Any], blocking: bool) -> None:
        while not self._stopped and not process.closing():
            try:
                self._handle(handler, self.recv(_TICK))
            except ZmqTimeoutError:
                continue
            except (ClosedError, ForkedError):
                if blocking and not self._stopped and not process.closing():
                    raise
                return
            except Exception:
                if blocking:
                    raise
                log.exception("%s: the loop could not receive or answer a message", self.address)
                time.sleep(_TICK)

    def _handle(self, handler: Callable[[Any], Any], message: Any) -> None:
        try:
            handler(message)
        except Exception:
            self._count_failure()

    def _count_failure(self) -> None:
        self.handler_failures += 1
        log.exception("%s: the handler failed", self.address)

    def at_exit(self, stage: int) -> bool:
        """Stop the loop in stage 1; return True to be called again while its thread runs.

        process.close_at_exit explains the stages.
        """
        if stage == 1:
            self._join(_TICK / 10)
        return stage == 1 and self._looping()

    def in_use(self) -> bool:
        """Return whether the loop's thread is still running."""
        return self._looping()
