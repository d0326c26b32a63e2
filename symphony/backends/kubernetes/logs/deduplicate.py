"""What was told of one log, so that what a server sends again is told once."""

from __future__ import annotations

from itertools import takewhile

from symphony.backends.kubernetes.status import pod_status

# With fewer lines it is not worth a look which of them may be forgotten.
_FEW = 1_000
# Of one second: beyond that its first lines are told twice where a connection breaks.
MOST = 50_000


class LogDeduplicator:
    """The lines that the server may send again: it cuts by whole seconds, and a clock may step back."""

    def __init__(self) -> None:
        # The time of the line that was told last; not always the newest one.
        self.last = ""
        self._first: tuple[float, str] | None = None
        self._lines: dict[tuple[str, str], float] = {}
        self._room = _FEW

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, stamp: str, text: str) -> bool:
        """Whether this line is new."""
        if (stamp, text) in self._lines or self._is_of_before(stamp):
            return False
        self._lines[stamp, text] = pod_status.epoch(stamp) or 0.0
        self.last = stamp
        return True

    def begin_with(self, number: int) -> None:
        """From the line of this number on only the last ones were asked for: none that is older is new."""
        self._first = min((_moment(stamp) for stamp, _ in [*self._lines][number:]), default=None)

    def _is_of_before(self, stamp: str) -> bool:
        if self._first is None:
            return False
        moment = _moment(stamp)
        return moment[0] == self._first[0] and moment < self._first

    def resume(self) -> float | None:
        """From when on to ask for more, None for all."""
        self.tidy()
        return pod_status.epoch(self.last)

    def tidy(self) -> None:
        """Once there is much, forget what was told of the seconds that will not be asked for again."""
        if len(self._lines) <= self._room:
            return
        second = (pod_status.epoch(self.last) or 0.0) // 1
        asked = [(line, moment) for line, moment in self._lines.items() if moment >= second]
        self._lines = dict(asked[-MOST:])
        self._room = max(_FEW, 2 * len(self._lines))


def _moment(stamp: str) -> tuple[float, str]:
    """The second and what is after its point: a float would lose the nanoseconds."""
    digits = takewhile(str.isdigit, stamp.partition(".")[2][:9])
    return ((pod_status.epoch(stamp) or 0.0) // 1, "".join(digits))
