"""LoopingEndpoint: the end of a pattern that can call a handler for every message."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from caraml.zmq.endpoint import Endpoint
from caraml.zmq.loop import Loop

log = logging.getLogger("caraml")


class LoopingEndpoint(Endpoint):
    """An Endpoint with `recv`, and a loop around it. `handler_failures` counts the handlers that raised."""

    handler_failures = 0
    _loop: Loop | None = None

    def recv(self, timeout: float | None = None) -> Any:
        """The next message. `timeout`: seconds, negative for ever; by default the socket's."""
        raise NotImplementedError

    def start_loop(self, handler: Callable[[Any], Any], blocking: bool = False) -> threading.Thread | None:
        """Call `handler(message)` for every message, here (`blocking`) or in a thread, which is returned.

        The thread is a daemon: join it for a program that does nothing else. What a handler raises is logged
        and counted, and the loop goes on. Raises RuntimeError when it runs already, ClosedError, ForkedError.
        """
        if not self._looping():
            self._wire.enter()  # raises here what the thread could tell nobody
            self._wire.leave()
        if self._loop is None or not self._looping():
            self._loop = Loop(lambda timeout: self._handle(handler, self.recv(timeout)))
        return self._loop.start(blocking)

    def _looping(self) -> bool:
        """Whether the loop's thread is alive."""
        return self._loop is not None and self._loop.running

    def stop(self) -> None:
        """End the loop, after the message in hand; from any thread, the handler's included."""
        if self._loop is not None:
            self._loop.stop()

    def close(self, linger: float | None = None) -> None:
        """Stop the loop and close; `linger` as of Endpoint.close."""
        if self._loop is not None:
            self._loop.join(1.0)
        super().close(linger)

    def _handle(self, handler: Callable[[Any], Any], message: Any) -> None:
        try:
            handler(message)
        except Exception:
            self._count_failure()

    def _count_failure(self) -> None:
        """Within an `except`."""
        self.handler_failures += 1
        log.exception("%s: the handler failed", self.address)
