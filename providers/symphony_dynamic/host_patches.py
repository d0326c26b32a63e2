"""What we change in the process that serves dynamic providers, once, when Pulumi configures one of ours.

That process is Pulumi's own: it shows every error with a traceback, and lives on when the engine was killed.
Now and then it misses that the engine interrupts it, which then waits for 5 s: the system gave the signal to
another thread, and Python's main thread, which alone can act on it, sleeps on.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import time
import traceback

from symphony.errors import SymphonyError

CHECKED_EVERY = 0.3
_done = threading.Event()
# The engine starts a script which starts us; host.py says where it does not.
has_shell_above = True


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
    threading.Thread(target=_watch, args=(_ancestors(), _interrupts()), daemon=True).start()


def _watch(above: list[int], interrupts: int) -> None:
    """End with an engine that was killed, so as not to change what the next run looks at, or waits for us."""
    watched = [interrupts]
    while _ancestors()[: len(above)] == above:
        if select.select(watched, [], [], CHECKED_EVERY)[0]:
            watched = []
            time.sleep(CHECKED_EVERY)
            _wake_main()
    os._exit(1)


def _interrupts() -> int:
    """What can be read when a thread was given a SIGINT; only the main thread may set a handler in Python."""
    reader, tell = os.pipe()
    faulthandler.register(signal.SIGINT, tell, chain=True)
    return reader


def _wake_main() -> None:
    """The interrupt again, for a main thread that still waits for it in `main`; after that it only ends."""
    ident = threading.main_thread().ident or 0
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name == "main":
            signal.pthread_kill(ident, signal.SIGINT)
            return
        frame = frame.f_back


def _ancestors() -> list[int]:
    """The shell that started us, and the engine above it."""
    result = [os.getppid()]
    if not has_shell_above:
        return result
    try:
        with open(f"/proc/{result[0]}/stat", "rb") as file:  # noqa: PTH123
            text = file.read()
        result.append(int(text[text.rfind(b")") + 2 :].split()[1]))
    except (OSError, ValueError, IndexError):
        pass
    return result
