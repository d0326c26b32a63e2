"""Tells when the memory of a message sent without a copy may change again."""

import time
from typing import Any

import zmq

from caraml.errors import ZmqTimeoutError


class MessageTracker:
    """One buffer or several that ZeroMQ still reads from. `done` is about memory, not about delivery."""

    __slots__ = ("_address", "_trackers")

    def __init__(self, address: str, trackers: list[Any]) -> None:
        self._address = address
        self._trackers = trackers

    @property
    def done(self) -> bool:
        """True once every buffer may be written again."""
        return all(tracker.done for tracker in self._trackers)

    def wait(self, timeout: float = -1) -> None:
        """Wait until `done`; seconds, negative for ever. Raises ZmqTimeoutError."""
        deadline = time.monotonic() + timeout
        for tracker in self._trackers:
            try:
                tracker.wait(-1 if timeout < 0 else max(0.0, deadline - time.monotonic()))
            except zmq.NotDone:
                raise ZmqTimeoutError(self._address, "the message's memory to be read", timeout) from None


DONE = MessageTracker("", [])
