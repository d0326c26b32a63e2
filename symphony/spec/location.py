"""The line of the user's program that said something; components note it, plan reports it."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from pathlib import Path

_OWN_FOLDER = str(Path(__file__).resolve().parent.parent) + os.sep


@dataclass(frozen=True, order=True)
class Location:
    """A line of a file; line 0 means that the line is not known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.short_file}:{self.line}" if self.line else self.short_file

    @property
    def short_file(self) -> str:
        """The file relative to the current folder where that is shorter."""
        try:
            relative = os.path.relpath(self.file)
        except (OSError, ValueError):
            return self.file
        return relative if len(relative) < len(self.file) else self.file


NOWHERE = Location("", 0)


def caller() -> Location:
    """The nearest line on the call stack that is not symphony's own."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_FOLDER, "<frozen")) and "contextlib" not in file:
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return NOWHERE
