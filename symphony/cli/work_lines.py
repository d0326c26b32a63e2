"""Shows long work a line each, replaced in place on a terminal, plain lines without; `setup` uses it."""

from __future__ import annotations

import sys

from symphony.cli import screen
from symphony.engine.subprocess_progress import Progress

# Without a terminal a line that says nothing new is noise in a log.
_PLAIN_EVERY = 15.0


class WorkLines:
    """Takes Progress reports until the end of its `with`."""

    def __init__(self) -> None:
        self._live = screen.is_terminal()
        self._what = ""
        self._said = 0.0

    def __enter__(self) -> WorkLines:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._live and self._what:
            sys.stdout.write("\n")

    def report(self, progress: Progress) -> None:
        is_new = progress.what != self._what
        if self._live:
            self._replace(progress, is_new)
        elif is_new or progress.finished or progress.seconds - self._said >= _PLAIN_EVERY:
            if not (progress.finished and progress.seconds < 1):
                print(line_of(progress), flush=True)
            self._said = progress.seconds
        self._what = "" if progress.finished else progress.what

    def _replace(self, progress: Progress, is_new: bool) -> None:
        if is_new and self._what:
            sys.stdout.write("\n")
        end = "\n" if progress.finished else ""
        sys.stdout.write(f"\r\x1b[2K{line_of(progress)}{end}")
        sys.stdout.flush()


def line_of(progress: Progress) -> str:
    """What, how far, how long so far."""
    far = f"  {progress.done}/{progress.total}" if progress.total else ""
    minutes, seconds = divmod(int(progress.seconds), 60)
    clock = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    return f"  {screen.clean(progress.what)}{far}  {clock}"
