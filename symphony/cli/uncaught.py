"""Shows an error that a plain script does not catch as the command line shows it."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from symphony.cli.screen import DEBUG_VARIABLE, complain
from symphony.errors import SymphonyError

_SHOWN = "_symphony_shows"


def show_in_full() -> None:
    """From now on an error of ours that nobody catches is its own lines, instead of a traceback into us."""
    before = sys.excepthook
    if getattr(before, _SHOWN, False):
        return

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, SymphonyError) or os.environ.get(DEBUG_VARIABLE):
            before(kind, error, trace)
            return
        complain(error.line, error.details)
        # At a prompt, leaving would take the session along.
        if not hasattr(sys, "ps1"):
            sys.exit(error.exit_code)

    setattr(shown, _SHOWN, True)
    sys.excepthook = shown
