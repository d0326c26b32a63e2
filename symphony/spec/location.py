"""The line of the user's program that said something."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NOT_THE_USERS = (str(Path(__file__).resolve().parent.parent) + os.sep, "<frozen", contextlib.__file__)


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
        if not file.startswith(_NOT_THE_USERS):
            # Absolute, for the problems are shown from another folder than the program runs in.
            return Location(os.path.abspath(file), frame.f_lineno)  # noqa: PTH100 : hot path
        frame = frame.f_back
    return NOWHERE


def part_of(setting: str, part: object) -> str:
    """How the line of a part of a setting is noted: `env PATH`, `tolerations 0`."""
    return f"{setting} {part if isinstance(part, (str, int)) else type(part).__name__}"


def place_of(setting: str, places: Mapping[str, Location], otherwise: Location) -> Location:
    """Where a setting was made: `env PATH` was if that was noted, else where `env` was, else `otherwise`."""
    return places.get(setting) or places.get(setting.partition(" ")[0], otherwise)
