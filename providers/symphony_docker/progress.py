"""Reports the progress of builds and pushes through a file that the `symphony` command reads."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# The environment variable with the path of that file; without it no progress is written.
VARIABLE = "SYMPHONY_IMAGE_PROGRESS"
# Smaller transfers get no progress bar.
_MIN_BYTES = 100_000
_lock = threading.Lock()
# Called with the step, the transferred bytes and the total; 0 if they are unknown.
OnProgress = Callable[[str, int, int], None]


class Report(NamedTuple):
    """The progress of an image; done and total: bytes, if known."""

    image: str
    step: str
    done: int = 0
    total: int = 0

    @property
    def transferred(self) -> str:
        """Return the progress as `12 of 40 MB`; empty for small transfers."""
        return f"{_mega(self.done)} of {_mega(self.total)} MB" if self.total >= _MIN_BYTES else ""


def _mega(count: int) -> str:
    return f"{count / 1e6:.0f}" if count >= 1e7 else f"{count / 1e6:.1f}"


def report(progress: Report) -> None:
    """Write a report to the file, if there is one; errors are ignored."""
    if file := os.environ.get(VARIABLE):
        with _lock, suppress(OSError), Path(file).open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(progress)}\n")


class Reader:
    """Reads the new reports in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def new(self) -> list[Report]:
        """Return the new reports: for each step the last one, in the order of the reports."""
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        reports = [Report(*json.loads(line)) for line in whole.splitlines()]
        last = {(report.image, report.step): number for number, report in enumerate(reports)}
        return [reports[number] for number in sorted(last.values())]
