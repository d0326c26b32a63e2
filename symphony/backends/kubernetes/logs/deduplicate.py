"""Remembers which lines of a log were told, so that one that the server sends again is not told twice."""

from __future__ import annotations

from itertools import takewhile

from symphony.backends.kubernetes.status import pod_status


class LogDeduplicator:
    """The lines of the last second: from there on the server is asked again, for it cuts by whole seconds."""

    def __init__(self) -> None:
        # The time of the line that was told last; not the newest one where a clock stepped back.
        self.last = ""
        self._first: tuple[float, str] | None = None
        self._lines: set[tuple[str, str]] = set()

    def add(self, stamp: str, text: str) -> bool:
        """Return whether this line is new.

        One that is older than the first line, in its second, is not: only the last ones were asked for.
        """
        moment = _moment(stamp)
        self._first = self._first or moment
        if self._first[0] == moment[0] and moment < self._first:
            return False
        if moment[0] != _moment(self.last)[0]:
            self._lines.clear()
        if (stamp, text) in self._lines:
            return False
        self._lines.add((stamp, text))
        self.last = stamp
        return True

    def resume(self) -> float | None:
        """Return from when on to ask for more, None for all."""
        return pod_status.epoch(self.last)


def _moment(stamp: str) -> tuple[float, str]:
    """Return the second and the digits after its point: a float would lose the nanoseconds."""
    digits = takewhile(str.isdigit, stamp.partition(".")[2][:9])
    return ((pod_status.epoch(stamp) or 0.0) // 1, "".join(digits))
