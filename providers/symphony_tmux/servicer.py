"""What we change in the process that serves dynamic providers, once, when Pulumi configures one of ours.

That process is Pulumi's own: it shows every error with a traceback, and lives on when the engine was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback

from symphony.errors import SymphonyError

CHECKED_EVERY = 0.3
_done = threading.Event()


class _OneLine:
    """Stands for the module `traceback` in the servicer: our own errors are one line, others as ever."""

    @staticmethod
    def format_exc() -> str:
        error = sys.exc_info()[1]
        return str(error) if isinstance(error, SymphonyError) else traceback.format_exc()


def adapt() -> None:
    """Does nothing anywhere else than in `python -m pulumi.dynamic`."""
    main = sys.modules.get("__main__")
    if _done.is_set() or getattr(main, "DynamicResourceProviderServicer", None) is None:
        return
    _done.set()
    if hasattr(main, "traceback"):
        main.traceback = _OneLine  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    threading.Thread(target=_end_with_engine, args=(_ancestors(),), daemon=True).start()


def _end_with_engine(above: list[int]) -> None:
    """A provider whose engine was killed must not go on changing what the next run is looking at."""
    while _ancestors()[: len(above)] == above:
        time.sleep(CHECKED_EVERY)
    os._exit(1)


def _ancestors() -> list[int]:
    """The shell that started us, and the engine above it."""
    found = [os.getppid()]
    try:
        with open(f"/proc/{found[0]}/stat", "rb") as file:  # noqa: PTH123
            text = file.read()
        found.append(int(text[text.rfind(b")") + 2 :].split()[1]))
    except (OSError, ValueError, IndexError):
        pass
    return found
