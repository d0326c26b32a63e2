"""An error that a script at a terminal does not catch is its own lines, instead of a traceback into us."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from symphony.cli.screen import DEBUG_VARIABLE, clean
from symphony.errors import SymphonyError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def fails_in_one_line(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose errors are in_one_line."""

    @wraps(function)
    def call(*words: _P.args, **given: _P.kwargs) -> _R:
        try:
            return function(*words, **given)
        except SymphonyError as error:
            raise in_one_line(error) from None

    return call


def in_one_line(error: SymphonyError) -> SymphonyError:
    """The error for a script to catch as what it is; Python ends one that does not with its text alone.

    Python does so with a SystemExit, and this one is both. Nobody's sys.excepthook is replaced.
    """
    if isinstance(error, SystemExit) or not _is_script():
        return error
    kind = type(error)
    both = type(kind.__name__, (kind, SystemExit), {"__module__": kind.__module__})
    made = both.__new__(both)
    vars(made).update(vars(error))
    made.args = error.args
    made.code = "\n".join(["symphony: " + clean(error.line), *map(clean, error.details)])
    return made.with_traceback(error.__traceback__)


def _is_script() -> bool:
    """At a prompt leaving would take the session along, and a thread would end without a word."""
    return (
        sys.stderr is not None  # pyright: ignore[reportUnnecessaryComparison]
        and sys.stderr.isatty()
        and not hasattr(sys, "ps1")
        and threading.current_thread() is threading.main_thread()
        and not os.environ.get(DEBUG_VARIABLE)
    )
