"""ZmqProxy and its thread and process: forward between two bound addresses; both sides' peers connect.

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

Under symphony, where one process binds both: `ZmqProxyThread(in_service="front", out_service="back")`.
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
    """Forwards from peers of `in_add` to peers of `out_add`, and for 'router-dealer' back.

    `pattern` is 'router-dealer' (requests, answers) or 'pull-push'. `context` as for ZmqSocket. `in_service`
    and `out_service` instead of addresses name services that this process binds. `hwm` and `limits` as for
    ZmqSocket, of each side: of limits `message_bytes` and `unread_bytes` bind a proxy. Raises ValueError for
    another pattern, AddressError for a side that is not answer, ServiceVariableError. `run()` forwards until
    `stop()` is called from another thread; it raises what binding raises.
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
        """Initialize the thread or process, before attributes may be set."""

    def run(self) -> None:
        """Bind both sides and forward until stopped."""
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
        """Wait until both sides are bound (`in_add` and `out_add` then name real ports). Raises
        ZmqTimeoutError after `timeout` seconds.
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
        """End before the context does."""
        if stage == 1:
            self.stop(0.5)

    def in_use(self) -> bool:
        """Return whether `run` still forwards."""
        return not self._ended.is_set()


class ZmqProxyThread(ZmqProxy, threading.Thread):
    """A ZmqProxy, with its keywords, in a daemon thread: `start()`, `stop()`, `join()`."""

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
        self._here, self._there = _forking.Pipe()

    def start(self) -> None:
        """Start the process."""
        super().start()
        self._there.close()  # so that the end of the process closes the pipe

    def run(self) -> None:
        """Forward in the process until it is told to stop, with a context of its own."""
        self.context = None
        self._here.close()
        process.end_with_parent()
        obeying = threading.Thread(target=self._obey, name="caraml-proxy-control", daemon=True)
        obeying.start()
        try:
            super().run()
        except CaramlError as error:
            log.error("the proxy ended: %s", error)
            obeying.join(1.0)

    def _obey(self) -> None:
        """Send the addresses, or the error, to the parent, and wait until it says stop."""
        self._bound.wait()
        self._there.send(self.failure or (self.in_add, self.out_add))
        if self.failure is None:
            with contextlib.suppress(EOFError):
                self._there.recv()
            super().stop()

    def wait_bound(self, timeout: float) -> None:
        """Wait until both sides are bound. Raises CaramlError too when the process ended."""
        if not self._bound.is_set():
            if not self._here.poll(timeout):
                raise ZmqTimeoutError(self.in_add, "the proxy to bind", timeout)
            try:
                answer = self._here.recv()
            except EOFError:
                answer = CaramlError(f"{self.in_add}: the proxy's process ended before it bound")
            if isinstance(answer, Exception):
                self.failure = answer
            else:
                self.in_add, self.out_add = answer
            self._bound.set()
        if self.failure is not None:
            raise self.failure

    def stop(self, timeout: float = 2.0) -> None:
        """End the process, and wait for it; one that does not end in `timeout` seconds is terminated."""
        with contextlib.suppress(OSError):
            self._here.send("stop")
        self.join(timeout)
        if self.is_alive():
            self.terminate()
            self.join(timeout)
