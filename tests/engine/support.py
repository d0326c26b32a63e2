"""Helpers of the engine tests: a run to its end, and the processes that it started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from symphony.engine.run.events import Event, Outcome

TINY = Path(__file__).parent / "tiny"
Kind = TypeVar("Kind")


@dataclass
class Ran:
    events: list[Event]
    outcome: Outcome

    def of_type(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]


Runner = Callable[..., Ran]


def processes_with(marker: str) -> list[int]:
    """Return the processes with a text in their environment: all that a run started."""
    result: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "environ").read_bytes()
                state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in text and state != b"Z":
                result.append(int(folder.name))
    return result
