"""The lines that the user's program prints while it runs, without those of the engine and its plugins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Self

from symphony.engine.run.events import Diagnostic, RunRestarted

_STACK = "::pulumi:pulumi:Stack::"


class ProgramOutput:
    """Tells the lines of several runs of one program; a later run tells only lines that are new."""

    def __init__(self) -> None:
        self._tell: Callable[[str], None] | None = None
        self._before: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    def to(self, tell: Callable[[str], None]) -> Self:
        """Begin another run of the program, whose lines go to a function."""
        self._tell = tell
        self._before |= self._now
        self._now.clear()
        return self

    def take(self, event: object) -> None:
        """Tell the lines of an event of the engine."""
        if self._tell is None:
            return
        if isinstance(event, RunRestarted):
            self.to(self._tell)
        if isinstance(event, Diagnostic) and _is_of_program(event):
            for line in filter(None, map(str.rstrip, event.message.splitlines())):
                self._now[line] += 1
                if self._now[line] > self._before[line]:
                    self._tell(line)


def _is_of_program(event: Diagnostic) -> bool:
    """Return whether the program printed it: with the urn of a resource it comes from a plugin."""
    return (
        event.severity.startswith("info") and not event.ephemeral and (not event.urn or _STACK in event.urn)
    )
