"""The line of the user's program that declared something."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

_NOT_THE_USERS = (str(Path(__file__).resolve().parent.parent) + os.sep, "<frozen", contextlib.__file__)
# Skipped only between the user's line and its caller; code in them that calls symphony is the user's.
_LIBRARIES = ("site-packages", "dist-packages", "pulumi-language-python-exec")
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


@dataclass(frozen=True, order=True)
class Location:
    """A line of a file; line 0 means that the line is not known.

    called_from: the line that called the enclosing function; empty at the top level of a module.
    """

    file: str
    line: int
    called_from: tuple[Location, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        if not self.line:
            return self.short_file
        calls = (f"line {call.line}" if call.file == self.file else str(call) for call in self.called_from)
        return ", called from ".join([f"{self.short_file}:{self.line}", *calls])

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
    """Return the innermost line of the user's code on the call stack, with the caller of its function."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return NOWHERE
    file, line = frame.f_code.co_filename, frame.f_lineno
    # A comprehension is a frame of its own.
    while frame is not None and frame.f_code.co_name in _COMPREHENSIONS:
        frame = frame.f_back
    outer = frame.f_back if frame is not None and not frame.f_code.co_name.startswith("<") else None
    while outer is not None and _is_library(outer.f_code.co_filename):
        outer = outer.f_back
    called_from = () if outer is None else (_location(outer.f_code.co_filename, outer.f_lineno),)
    return dataclasses.replace(_location(file, line), called_from=called_from)


def _is_ours(code: CodeType) -> bool:
    """Return whether code is symphony's, or an __init__ that dataclasses generated."""
    is_generated = code.co_name == "__init__" and code.co_filename == "<string>"
    return is_generated or code.co_filename.startswith(_NOT_THE_USERS)


def _is_library(file: str) -> bool:
    """Return whether a file belongs to symphony, or to a library that calls the user's functions."""
    return file.startswith(_NOT_THE_USERS) or any(part in file for part in _LIBRARIES)


def _location(file: str, line: int) -> Location:
    # Absolute, because the command that shows the problems may run in another folder.
    return Location(os.path.abspath(file), line)  # noqa: PTH100 : hot path


def part_key(setting: str, part: object) -> str:
    """Return the key for a part's line: its text or number (`env PATH`, `tolerations 0`), or its type."""
    return f"{setting} {part if isinstance(part, (str, int)) else type(part).__name__}"
