"""Reports the progress of builds and pushes through a file that the `symphony` command reads."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# The environment variable with the path of that file; without it no progress is written.
VARIABLE = "SYMPHONY_IMAGE_PROGRESS"
# Bytes; smaller transfers take a moment and get no bar.
_SMALL = 100_000
_guard = threading.Lock()


class Report(NamedTuple):
    """The progress of an image; done of total bytes, where that is known."""

    image: str
    what: str
    done: int = 0
    total: int = 0

    @property
    def size(self) -> str:
        """Return the progress in words: `12 of 40 MB`; empty for small transfers."""
        return f"{_mega(self.done)} of {_mega(self.total)} MB" if self.total >= _SMALL else ""


def _mega(count: int) -> str:
    return f"{count / 1e6:.0f}" if count >= 1e7 else f"{count / 1e6:.1f}"


def report(progress: Report) -> None:
    """Write a report to the file, if there is one; errors are ignored."""
    if file := os.environ.get(VARIABLE):
        with _guard, suppress(OSError), Path(file).open("a", encoding="utf-8") as stream:
            stream.write(f"{json.dumps(progress)}\n")


class Reader:
    """Reads the new reports in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0

    def new(self) -> list[Report]:
        """Return the new reports; of each step only the last one."""
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._read)
                text = stream.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        reports = [Report(*json.loads(line)) for line in whole.splitlines()]
        ends = [i + 1 == len(reports) or each[:2] != reports[i + 1][:2] for i, each in enumerate(reports)]
        return [each for each, is_last in zip(reports, ends, strict=True) if is_last]
