"""ZmqProxy, ZmqProxyThread and ZmqProxyProcess: forward between two addresses that they bind.

>>> proxy = ZmqProxyThread("tcp://127.0.0.1:*", "tcp://127.0.0.1:*", pattern="pull-push")
>>> proxy.start()
>>> proxy.wait_bound(timeout=5)
>>> from caraml.zmq.push_pull import ZmqPuller, ZmqPusher
>>> puller = ZmqPuller(address=proxy.out_add, bind=False)
>>> pusher = ZmqPusher(address=proxy.in_add)
>>> pusher.push(b"through")
>>> puller.pull(timeout=5)
b'through'
>>> pusher.close(); puller.close(); proxy.stop()

Under symphony, in a process that binds both services: `ZmqProxyThread(in_service="front",
out_service="back")`.
"""

import contextlib
import logging
import multiprocessing
import threading
from typing import Any

import zmq

from caraml import process
from caraml.address import resolve
from caraml.errors import CaramlError, ZmqTimeoutError
from caraml.limits import DEFAULT_LIMITS, Limits
from caraml.transport.socket import ZmqSocket

log = logging.getLogger("caraml")

_PATTERNS = {"router-dealer": (zmq.ROUTER, zmq.DEALER), "pull-push": (zmq.PULL, zmq.PUSH)}
_LINGER_MS = 500


class ZmqProxy:
    """Forwards messages; `run()` does so until another thread calls `stop()`.

    Args:
        in_add: The address that clients or pushers connect to.
        out_add: The address that servers or pullers connect to.
        context: As for ZmqSocket.
        pattern: 'router-dealer' (requests and answers) or 'pull-push'.
        in_service: A service that this process binds, instead of `in_add`.
        out_service: A service that this process binds, instead of `out_add`.
        hwm: As for ZmqSocket, on both sides.
        limits: As for ZmqSocket, on both sides.

    Raises:
        ValueError: The pattern is unknown.
        AddressError: An address is missing or cannot be parsed.
        ServiceVariableError: A service has no variables in the environment.
    """

    def __init__(
        self,
        in_add: str | None = None,
        out_add: str | None = None,
        context: zmq.Context[Any] | None = None,
        pattern: str = "router-dealer",
        *,
        in_service: str | None = None,
        out_service: str | None = None,
        hwm: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._initialize()
        if pattern not in _PATTERNS:
            raise ValueError(f"invalid proxy pattern {pattern!r}; expected one of {', '.join(_PATTERNS)}")
        self.in_add = resolve(address=in_add, service=in_service, bind=True).endpoint
        self.out_add = resolve(address=out_add, service=out_service, bind=True).endpoint
        self.context = context
        self._hwm, self._limits = hwm, limits
        self.pattern = pattern
        self.failure: Exception | None = None
        self._control: str = f"inproc://caraml-proxy-{id(self)}"
        self._stopper: zmq.Socket[Any] | None = None
        self._bound = threading.Event()
        self._ended = threading.Event()

    def _initialize(self) -> None:
        """Initialize the thread or process, which must come before its attributes."""

    def run(self) -> None:
        """Bind both sides and forward until stopped. Raises CaramlError if binding fails."""
        context = process.context() if self.context is None else self.context
        sides: list[ZmqSocket] = []
        control = context.socket(zmq.PAIR)
        stopper = self._stopper = context.socket(zmq.PAIR)
        try:
            control.bind(self._control)
            stopper.connect(self._control)
            for address, mode in zip((self.in_add, self.out_add), _PATTERNS[self.pattern], strict=True):
                side = ZmqSocket(
                    address=address,
                    socket_mode=mode,
                    bind=True,
                    context=context,
                    hwm=self._hwm,
                    limits=self._limits,
                )
                sides.append(side.establish())
            self.in_add, self.out_add = (side.address for side in sides)
            process.close_at_exit(self)
            self._bound.set()
            zmq.proxy_steerable(sides[0].unwrap(), sides[1].unwrap(), None, control)
        except zmq.ContextTerminated:
            return
        except CaramlError as error:
            self.failure = error
            self._bound.set()
            raise
        finally:
            for side in sides:
                side.close(_LINGER_MS)
            control.close(0)
            stopper.close(0)
            self._ended.set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pattern} {self.in_add} to {self.out_add}>"

    def wait_bound(self, timeout: float) -> None:
        """Wait until both sides are bound; `in_add` and `out_add` have the real ports then.

        Raises ZmqTimeoutError after `timeout` seconds, or the error of binding.
        """
        if not self._bound.wait(timeout):
            raise ZmqTimeoutError(self.in_add, "the proxy to bind", timeout)
        if self.failure is not None:
            raise self.failure

    def stop(self, timeout: float = 2.0) -> None:
        """End `run` in another thread, and wait for it, at most `timeout` seconds."""
        if self._bound.is_set() and not self._ended.is_set() and self._stopper is not None:
            self._stopper.send(b"TERMINATE")
            self._ended.wait(timeout)

    def at_exit(self, stage: int) -> None:
        """Stop in stage 1 (see process.close_at_exit), before the context is destroyed."""
        if stage == 1:
            self.stop(0.5)

    def in_use(self) -> bool:
        """Return whether `run` has not ended yet."""
        return not self._ended.is_set()


class ZmqProxyThread(ZmqProxy, threading.Thread):
    """A ZmqProxy, with its keywords, in a daemon thread: `start()`, `stop()`, `join()`."""

    def stop(self, timeout: float = 2.0) -> None:
        """End the thread, and wait for it, at most `timeout` seconds."""
        if self.is_alive():
            self._bound.wait(timeout)
        super().stop(timeout)

    def _initialize(self) -> None:
        threading.Thread.__init__(self, name="caraml-proxy", daemon=True)

    def run(self) -> None:
        """Forward; a failure to bind is logged, and raised by `wait_bound`."""
        try:
            super().run()
        except CaramlError as error:
            log.error("the proxy ended: %s", error)


_forking = multiprocessing.get_context("fork")


class ZmqProxyProcess(ZmqProxy, _forking.Process):
    """A ZmqProxy in a process of its own, ended with this one: `start()`, `stop()`, `join()`."""

    def _initialize(self) -> None:
        _forking.Process.__init__(self, name="caraml-proxy", daemon=True)
        self._parent_end, self._child_end = _forking.Pipe()

    def start(self) -> None:
        """Start the process."""
        super().start()
        self._child_end.close()  # so that the pipe closes when the process ends

    def run(self) -> None:
        """Forward in the child process, with a context of its own."""
        # No at_exit runs here: the process ends by stop(), as a daemon, or with its parent.
        self.context = None
        self._parent_end.close()
        process.end_with_parent()
        control_thread = threading.Thread(target=self._serve_parent, name="caraml-proxy-control", daemon=True)
        control_thread.start()
        try:
            super().run()
        except CaramlError as error:
            log.error("the proxy ended: %s", error)
            control_thread.join(1.0)

    def _serve_parent(self) -> None:
        """Send the addresses, or the error, to the parent, and wait for its stop."""
        self._bound.wait()
        self._child_end.send(self.failure or (self.in_add, self.out_add))
        if self.failure is None:
            with contextlib.suppress(EOFError):
                self._child_end.recv()
            super().stop()

    def wait_bound(self, timeout: float) -> None:
        """Wait until both sides are bound. Raises CaramlError if the process has ended."""
        if not self._bound.is_set():
            if not self._parent_end.poll(timeout):
                raise ZmqTimeoutError(self.in_add, "the proxy to bind", timeout)
            try:
                answer = self._parent_end.recv()
            except EOFError:
                answer = CaramlError(
                    f"{self.in_add}: the process of the proxy ended before it bound; it has printed why,"
                    " unless a signal ended it"
                )
            if isinstance(answer, Exception):
                self.failure = answer
            else:
                self.in_add, self.out_add = answer
            self._bound.set()
        if self.failure is not None:
            raise self.failure

    def stop(self, timeout: float = 2.0) -> None:
        """Stop the process; terminate it if it does not end within `timeout` seconds."""
        with contextlib.suppress(OSError):
            self._parent_end.send("stop")
        self.join(timeout)
        if self.is_alive():
            self.terminate()
            self.join(timeout)
