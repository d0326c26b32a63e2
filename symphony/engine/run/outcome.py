"""How an engine run ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from symphony.engine.run.events import Diagnostic, Summary

Verb = Literal["up", "preview", "destroy", "refresh"]
Result = Literal["succeeded", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended; errors.check() turns anything but success into one line."""

    verb: Verb
    stack: str
    project: str
    folder: Path
    result: Result
    exit_code: int
    summary: Summary | None
    diagnostics: tuple[Diagnostic, ...]
    stderr: str
    seconds: float
