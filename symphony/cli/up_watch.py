"""`symphony up --watch`: bring up each saved change, and tell which processes fail, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from symphony.backends.observe import ProcessStatus
from symphony.cli import screen
from symphony.cli.progress import alike, names_of
from symphony.engine.errors import Interrupted
from symphony.engine.state.file_store import StackName
from symphony.errors import SymphonyError
from symphony.operations import stacks
from symphony.operations.plan import Planned
from symphony.operations.process import processes, state
from symphony.operations.sources import Sources
from symphony.plan.problems import count

Up = Callable[[Callable[[Planned], None]], Planned | None]


def watch(name: StackName, sources: Sources, up: Up) -> None:
    """Bring up each change.

    Args:
        name: The stack.
        sources: The files to watch.
        up: Brings the stack up, and shows the plan by the function that it gets.

    Raises:
        Interrupted: By Ctrl-C; the experiment keeps running.
    """
    stack, failures = name.stack, _Failures(name)
    files = count(len(sources.state), "file")
    print(f"Watching {files} of {stack}. Ctrl-C stops watching; {stack} keeps running.", flush=True)
    try:
        failures.note()
        while True:
            sources, changed = sources.wait(failures.tell)
            print(screen.clean(f"{time.strftime('%H:%M:%S')} {names_of(changed)} changed"), flush=True)
            try:
                planned = up(_show)
            except Interrupted:
                raise
            except SymphonyError as error:
                # Most likely half an edit, which the next change completes.
                screen.show_error(error.line, error.details)
            else:
                sources = sources.after(planned) if planned else sources
            failures.note()
            # The reader of a pipe sees how it ended.
            sys.stdout.flush()
    except KeyboardInterrupt:
        remedy = f"`symphony up {stack} --watch` watches again, `symphony delete {stack}` stops it"
        raise Interrupted(f"Stopped watching {stack}; it keeps running", remedy=remedy) from None


class _Failures:
    """Tells of processes that fail while files are watched."""

    def __init__(self, name: StackName) -> None:
        self._name = name
        self._known: set[tuple[str, float | None]] = set()

    def note(self) -> None:
        """Remember the processes that have failed so far."""
        self._known = {(status.path, status.since) for status in self._failed()}

    def tell(self) -> None:
        """Print the processes that have failed since."""
        failed = self._failed()
        new = [status for status in failed if (status.path, status.since) not in self._known]
        self._known = {(status.path, status.since) for status in failed}
        for names, status in alike(new):
            why = f"symphony why {self._name.stack} {status.path}"
            line = f"{time.strftime('%H:%M:%S')} {names}   {state(status)}   {why}"
            print(screen.clean(line), flush=True)

    def _failed(self) -> list[ProcessStatus]:
        try:
            return [s for s in processes(stacks.read(self._name)) if s.state in ("failed", "lost")]
        except SymphonyError:
            # A backend that does not answer for a moment is told by other commands.
            return []


def _show(planned: Planned) -> None:
    """Print the plan in one line."""
    parts = [f"build image {image.name} ({'; '.join(image.reasons)})" for image in planned.images]
    by_reason: dict[tuple[str, str], list[str]] = {}
    for kind in ("restart", "start", "stop"):
        for change in planned.changes:
            if change.kind == kind:
                # The plan has told why the image changed.
                why = "image" if change.why.startswith("image: ") else change.why
                by_reason.setdefault((kind, why), []).append(change.path)
    parts += [
        f"{kind} {names_of(paths)}{f' ({why})' if why else ''}" for (kind, why), paths in by_reason.items()
    ]
    parts = parts or ["nothing changes"]
    if unchanged := planned.count("keep"):
        parts.append(f"{unchanged} unchanged")
    screen.tell(screen.clean("; ".join(parts)))
