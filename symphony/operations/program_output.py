"""What a program prints while it is run, line by line, beside what the engine and its plugins have to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Self

from symphony.engine.run.events import Diagnostic, RunRestarted
from symphony.engine.tracebacks import HEAD

_STACK = "::pulumi:pulumi:Stack::"


class ProgramOutput:
    """Tells the lines of some runs of one program; what a run before has printed is not told again."""

    def __init__(self) -> None:
        self._tell: Callable[[str], None] | None = None
        self._before: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._held: list[str] = []

    def to(self, tell: Callable[[str], None]) -> Self:
        """The same for one more run of the program."""
        self._tell = tell
        self._before |= self._now
        self._now.clear()
        self._held.clear()
        return self

    def take(self, event: object) -> None:
        """Tell the lines that came with an event of the engine."""
        if isinstance(event, RunRestarted) and self._tell is not None:
            self.to(self._tell)
        if self._tell is None or not (isinstance(event, Diagnostic) and _is_of_program(event)):
            return
        for line in event.message.splitlines():
            for each in self._released(line.rstrip()):
                self._now[each] += 1
                if self._tell is not None and self._now[each] > self._before[each]:
                    self._tell(each)

    def _released(self, line: str) -> list[str]:
        """The line, and what was held: a Python without Pulumi begins with a traceback that nobody needs."""
        if not line:
            return []
        if not self._held and line != HEAD:
            return [line]
        self._held.append(line)
        if line == HEAD or line.startswith(" "):
            return []
        held, self._held = self._held, []
        if line.startswith("ModuleNotFoundError: No module named 'pulumi"):
            self._tell = None
            return []
        return held


def _is_of_program(given: Diagnostic) -> bool:
    """Whether the program said it: what has the urn of a resource came from that one's plugin."""
    return (
        given.severity.startswith("info") and not given.ephemeral and (not given.urn or _STACK in given.urn)
    )
