"""Loop: a handler called for every message, here or in a thread, until it is stopped."""

import logging
import threading
import time
from collections.abc import Callable

from caraml import process
from caraml.errors import ClosedError, ForkedError, ZmqTimeoutError

log = logging.getLogger("caraml")

TICK = 0.1


class Loop:
    """Calls `step(timeout)` over and over. `step` raises ZmqTimeoutError when there was nothing to do.

    The thread is a daemon: it never keeps the interpreter from exiting. Join it to go on serving.
    """

    __slots__ = ("__weakref__", "_step", "_stopped", "_thread", "failure")

    def __init__(self, step: Callable[[float], object]) -> None:
        self._step = step
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, blocking: bool) -> threading.Thread | None:
        """Run here until stopped, or start the thread and return it. Raises RuntimeError when it runs
        already; when it runs here, also what ends it that nobody asked for.
        """
        if self.running:
            raise RuntimeError("loop is already running")
        if blocking:
            self._run(True)
            return None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, args=(False,), name="caraml-loop", daemon=True)
        process.close_at_exit(self)
        self._thread.start()
        return self._thread

    def stop(self) -> None:
        """End after the message in hand; from any thread, the handler's included."""
        self._stopped = True

    def join(self, timeout: float) -> None:
        """Stop, and wait for the thread to end."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self, blocking: bool) -> None:
        while not self._stopped and not process.closing():
            try:
                self._step(TICK)
            except ZmqTimeoutError:
                continue
            except (ClosedError, ForkedError):
                if blocking and not self._stopped and not process.closing():
                    raise
                return
            except Exception:
                if blocking:
                    raise
                log.exception("the loop could not handle a message")
                time.sleep(TICK)

    def at_exit(self, stage: int) -> bool:
        """Stop; True to be called again while the thread still runs."""
        if stage == 1:
            self.join(TICK / 10)
        return stage == 1 and self.running

    def in_use(self) -> bool:
        """Whether the thread is still running."""
        return self.running
