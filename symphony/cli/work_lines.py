"""Shows long work: a live line each on a terminal, plain lines where it begins and ends elsewhere."""

from __future__ import annotations

from typing import Any, Self

from symphony.cli import screen
from symphony.engine.subprocess_progress import WorkProgress
from symphony.operations.times import lasting


class WorkLines:
    """Takes reports until the end of its `with`."""

    def __init__(self) -> None:
        self._live: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if screen.is_terminal():
            from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._live = Progress(
                TextColumn("  {task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
            )
            self._live.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, progress: WorkProgress) -> None:
        what, is_new = screen.clean(progress.what), progress.what not in self._tasks
        if self._live is not None:
            if is_new:
                self._tasks[progress.what] = self._live.add_task(what, total=None)
            total = progress.total or (1 if progress.finished else None)
            done = total if progress.finished else progress.done
            self._live.update(self._tasks[progress.what], completed=done, total=total)
        elif is_new or (progress.finished and progress.seconds >= 1):
            self._tasks[progress.what] = None
            far = f"  {progress.done}/{progress.total}" if progress.total else ""
            print(f"  {what}{far}  {lasting(progress.seconds)}", flush=True)
