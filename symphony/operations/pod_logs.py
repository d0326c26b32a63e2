"""Copies the logs of pods to the folder of their run, in the format of tmux logs."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Self

from symphony import files, paths
from symphony.backends.observe import LogLine
from symphony.errors import SymphonyError
from symphony.operations import stacks

_ENDED = re.compile(r"ended: exit (\d+)")
# The maximum bytes kept for a process; later output is dropped.
_MAX_BYTES = 100 * 1024 * 1024


def collect(stack: stacks.Stack, folder: Path, began: float) -> str:
    """Append the new output of pods since `began` to the logs in a folder.

    Return an error message, or else the notes about unread logs; empty if all was read.
    """
    assert stack.recorded is not None
    unread: list[str] = []
    with Keeper(stack.processes, folder, began) as keeper:
        try:
            for line in stack.observer().logs(stack.recorded, list(stack.processes), since=keeper.since):
                keeper.add(line)
                unread += [f"{line.path}: {line.text}"] * line.is_note
        except SymphonyError as error:
            return error.what
        except OSError as error:
            return error.strerror or str(error)
    return "; ".join(unread)


def keeping(stack: stacks.Stack, folder: Path, began: float, lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Yield lines of pods that are followed, and append them to the logs in a folder."""
    collect(stack, folder, began)
    with Keeper(stack.processes, folder, began) as keeper:
        for line in lines:
            with suppress(OSError):
                keeper.add(line)
            yield line


class Keeper:
    """Appends lines to the logs of a run, unless another `symphony` command does at this moment."""

    def __init__(self, processes: Iterable[str], folder: Path, began: float) -> None:
        self._folders = {path: log_folder(folder, path) for path in processes}
        self._lock = folder / "lock"
        self._began = began
        self._last: dict[str, float] = {}
        self._files: dict[str, tuple[FileIO, FileIO]] = {}
        self._has_lock = False
        self._open_files = ExitStack()

    def __enter__(self) -> Self:
        with suppress(SymphonyError, OSError):
            self._open_files.enter_context(files.locked(self._lock, seconds=0, what="the logs"))
            self._has_lock = True
        self._last = {path: _last(folder) for path, folder in self._folders.items()}
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    @property
    def since(self) -> float:
        """The time from which lines of some process may be missing."""
        # The clock of the cluster may be behind.
        return max(self._began - 60, min(self._last.values(), default=0))

    def add(self, line: LogLine) -> None:
        """Append a line of output unless the log already has it."""
        if line.is_note:
            return
        time = line.time or 0
        # A process that is not one of the run's is absent from _last: its lines are dropped, too.
        last = self._last.get(line.path, math.inf)
        if not self._has_lock or time < last or (time == last and self._is_kept(line)):
            return
        log, index = self._files.get(line.path) or self._open(line.path)
        offset = log.tell()
        if offset > _MAX_BYTES:
            return
        ended = _ENDED.match(line.text) if line.ended else None
        index.write(f"{time:.6f} {offset}{f' exit {ended[1]}' if ended else ''}\n".encode())
        if not ended:
            log.write(f"{line.text}\n".encode("utf-8", "replace"))
        self._last[line.path] = time

    def _is_kept(self, line: LogLine) -> bool:
        """Return whether a line with the time of the last one was kept earlier; only an end may be new."""
        if line.path in self._files:
            return False
        folder = self._folders[line.path]
        # Imported here: reading commands load this module.
        from symphony_tmux import logs

        has_end = b" exit " in _last_mark(folder)
        return not line.ended or has_end or logs.last(folder / "log", 1) == f"{line.text}\n".encode()

    def _open(self, path: str) -> tuple[FileIO, FileIO]:
        folder = paths.private_folder(self._folders[path])
        log, index = (self._open_files.enter_context(FileIO(folder / name, "a")) for name in ("log", "index"))
        self._files[path] = log, index
        return log, index


def log_folder(folder: Path, path: str) -> Path:
    """Return the folder of the log of a process, in the folder of its run."""
    # No name of a process or a group has a dot.
    return folder / path.replace("/", ".")


def _last(folder: Path) -> float:
    """Return the time of the last kept line."""
    with suppress(ValueError, IndexError):
        return float(_last_mark(folder).split()[0])
    return 0.0


def _last_mark(folder: Path) -> bytes:
    with suppress(OSError, IndexError):
        return files.read(folder / "index", limit=1 << 30).rsplit(b"\n", 2)[-2]
    return b""
