"""How far a deletion is: which processes still run and for how long, as their backend sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping

from symphony.operations.up import Progress

_EVERY = 0.5
# A process that does not end at once is saving what it has, or has not heard.
_PATIENCE = 2.0


class Stopping:
    """Progress of processes of this machine, from the first look until each has ended.

    graces: path -> the seconds after which it is killed; alive: the paths of those that still run.
    """

    def __init__(self, graces: Mapping[str, float], alive: Callable[[], Collection[str]]) -> None:
        self._graces = dict(graces)
        self._alive = alive
        self._began = self._looked = time.monotonic()

    def look(self) -> Iterator[Progress]:
        """What changed since the last look; at most twice a second."""
        now = time.monotonic()
        if now - self._looked >= _EVERY and self._graces:
            self._looked = now
            alive = self._alive()
            yield from self._ended(path for path in list(self._graces) if path not in alive)
            yield from (self._still(path, grace) for path, grace in self._graces.items())

    def end(self) -> Iterator[Progress]:
        """The deletion is done: all have ended."""
        yield from self._ended(list(self._graces))

    def _ended(self, paths: Collection[str] | Iterator[str]) -> Iterator[Progress]:
        seconds = time.monotonic() - self._began
        for path in paths:
            grace = self._graces.pop(path)
            killed = f"killed: SIGTERM did not end it in {grace:g} s" if grace and seconds >= grace else ""
            yield Progress(path, "stopped", seconds, killed)

    def _still(self, path: str, grace: float) -> Progress:
        seconds = time.monotonic() - self._began
        kill = f"; SIGKILL after {grace:g} s" if grace else ""
        note = f"still runs after SIGTERM{kill}" if seconds >= _PATIENCE else ""
        return Progress(path, "stopping", seconds, note)
