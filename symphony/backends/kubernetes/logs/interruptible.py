"""Waiting for what threads say so that Ctrl-C always ends it."""

from __future__ import annotations

import queue
from typing import TypeVar

Item = TypeVar("Item")

# A Ctrl-C that comes between Python's last look at signals and its sleep, or to another thread, wakes nobody.
_SECONDS_WITHOUT_A_LOOK = 0.5


def take(lines: queue.SimpleQueue[Item]) -> Item:
    """The next thing that a thread has put there. KeyboardInterrupt: Ctrl-C, half a second late at most."""
    while True:
        try:
            return lines.get(timeout=_SECONDS_WITHOUT_A_LOOK)
        except queue.Empty:
            continue
