"""Shows the progress of processes: rows updated in place on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from symphony.cli import screen
from symphony.operations.plan import Planned
from symphony.operations.up import Ended, Progress, Remark, ResourcesEnded, UpEvent, Watched
from symphony.plan.names import and_more, sort_key

if TYPE_CHECKING:
    from rich.console import Group

    from symphony.backends.observe import ProcessStatus

_COLOURS = {
    "started": "green",
    "pushed": "green",
    "restarted": "yellow",
    "stopped": "red",
    "created": "green",
    "updated": "yellow",
    "replaced": "yellow",
    "deleted": "red",
    "failed": "bold red",
    "lost": "bold red",
}
_UNDER_WAY = ("working", "stopping")
# More rows than this are shown as a bar, with the rows that failed or have a note, else the last four.
_ROWS = 16
_BAR_COLUMNS = 10
# The column of the notes.
_NOTES = 3
_NAMES = 3


def alike(statuses: Sequence[ProcessStatus]) -> list[tuple[str, ProcessStatus]]:
    """Group processes with equal state, reason, previous end and last lines.

    Return (`a, b, c and 37 more`, a member) for each group.
    """
    groups: dict[tuple[str, ...], list[ProcessStatus]] = {}
    for status in statuses:
        groups.setdefault((status.state, status.why, status.last, *status.words), []).append(status)
    return [(names_of([status.path for status in group]), group[0]) for group in groups.values()]


def names_of(paths: Sequence[str]) -> str:
    """Return `a, b, c and 37 more`."""
    return and_more(paths, _NAMES)


def lasted(seconds: float) -> str:
    """Return a duration; empty if it is short."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else ""


class Board:
    """A display of the progress of processes during a `with` block; a quiet one shows nothing."""

    def __init__(self, names: Collection[str] = (), *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._expect(names)
        self._rows: dict[str, Progress] = {}
        self._began = time.monotonic()
        self._watched: list[ProcessStatus] = []
        self._shown_causes: set[str] = set()
        self._live: Any = None

    def __enter__(self) -> Self:
        if screen.is_terminal() and not self._quiet:
            from rich.live import Live

            self._live = Live(console=screen.console(), get_renderable=self._drawn, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def show(self, event: UpEvent, show_plan: Callable[[Planned], None] | None) -> None:
        """Show an event of an `up`; show_plan prints the plan."""
        match event:
            case Planned(changes=changes):
                # A follower is restarted by the supervisor, so the engine tells nothing of it.
                own = (change for change in changes if change.kind != "keep" and not change.follows)
                self._expect([change.path for change in own])
                if show_plan is not None:
                    self._print_above(partial(show_plan, event))
            case Progress():
                self.update(event)
            case Remark(text=text):
                self.say(text)
            case Watched(statuses=statuses):
                self.watch(statuses)
            case Ended() | ResourcesEnded():
                self.end()

    def update(self, progress: Progress) -> None:
        """Show the progress of a process."""
        before = self._rows.get(progress.path)
        self._rows[progress.path] = progress
        has_news = progress.note and (before is None or before.note != progress.note)
        if self._live is None and (has_news or progress.state not in _UNDER_WAY):
            name = screen.clean(progress.path)
            padding = " " * max(0, self._width - screen.width(name))
            note = f"   {progress.note}" if progress.note else ""
            self._print(
                f"  {name}{padding}  {progress.state:9}  {lasted(progress.seconds):>8}{note}".rstrip()
            )

    def watch(self, statuses: Sequence[ProcessStatus]) -> None:
        """Show the processes that do not run yet, in place of the rows."""
        if self._live is None and not self._watched:
            waiting = sum(1 for status in statuses if status.state == "waiting")
            self._print(f"  waiting for {waiting} of {len(statuses)} to run")
        self._watched = sorted(statuses, key=lambda status: sort_key(status.path))
        if self._live is None:
            self._print_troubles()

    def say(self, text: str) -> None:
        """Print a line above the rows."""
        if self._live is not None:
            self._live.console.print(screen.clean(text))
        else:
            self._print(screen.clean(text))

    def end(self) -> None:
        """Keep the rows as they are; later output comes below them."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _expect(self, names: Collection[str]) -> None:
        self._total = len(names)
        self._width = max((screen.width(screen.clean(name)) for name in names), default=0)

    def _print(self, text: str) -> None:
        if not self._quiet:
            screen.tell(text)

    def _print_above(self, show: Callable[[], None]) -> None:
        if self._quiet:
            return
        if self._live is not None:
            self._live.stop()
            show()
            self._live.start()
            return
        try:
            show()
        except OSError:
            screen.silence()

    def _print_troubles(self) -> None:
        """Print why processes do not run, each cause once."""
        troubled = [status for status in self._watched if _is_trouble(status)]
        new = [status for status in troubled if _cause(status) not in self._shown_causes]
        self._shown_causes.update(map(_cause, new))
        for names, status in alike(new):
            self._print(screen.clean(f"  {names}  {status.state}: {status.why}"))

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        if self._watched:
            return Group(*self._drawn_statuses())
        rows, parts = list(self._rows.values()), list[Any]()
        if len(rows) > _ROWS:
            total = max(self._total, len(rows))
            done = sum(1 for row in rows if row.state not in _UNDER_WAY)
            bar = Table.grid(padding=(0, 1))
            bar.add_row(f"  {done}/{total}", ProgressBar(total, done, width=30), lasted(self._elapsed))
            parts.append(bar)
            rows = [row for row in rows if row.state == "failed" or row.note][-_ROWS:] or rows[-4:]
        grid = _grid()
        for row in rows:
            bar = ProgressBar(1, row.share, width=_BAR_COLUMNS) if row.share >= 0 else ""
            cells = (lasted(row.seconds), _shortened(row.note), bar, row.size if row.share >= 0 else "")
            grid.add_row(*_start(row.path, row.state), *cells)
        return Group(*parts, grid)

    def _drawn_statuses(self) -> list[Any]:
        waiting = [status for status in self._watched if status.state not in ("running", "completed")]
        up = len(self._watched) - len(waiting)
        grid = _grid()
        for status in waiting[:_ROWS]:
            grid.add_row(*_start(status.path, status.state), "", _shortened(status.why))
        more = [f"  and {len(waiting) - _ROWS} more"] if len(waiting) > _ROWS else []
        return [f"  {up} of {len(self._watched)} are up   {lasted(self._elapsed)}", grid, *more]

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def _grid() -> Any:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    for column, justify in enumerate(("left", "left", "right", "left", "left", "left")):
        # On a narrow terminal, rich first shrinks a column that may wrap: the notes, not the names.
        grid.add_column(justify=justify, no_wrap=column != _NOTES, overflow="ellipsis")
    return grid


def _shortened(note: str) -> Any:
    """Return a note that takes one line of any width."""
    from rich.text import Text

    return Text(screen.clean(note), no_wrap=True, overflow="ellipsis")


def _start(path: str, state: str) -> tuple[Any, Any]:
    from rich.text import Text

    return Text(f"  {screen.clean(path)}"), Text(f"{state:9}", _COLOURS.get(state, "dim"))


def _cause(status: ProcessStatus) -> str:
    """Return a key, the same for equal causes: the last part of the reason, or all of it if blocked.

    So a wait is printed again when its time is over and it blocks the process.
    """
    return f"blocked: {status.why}" if status.state == "blocked" else status.why.rpartition(": ")[2]


def _is_trouble(status: ProcessStatus) -> bool:
    """Return whether a status is trouble, unlike a step to running such as `not scheduled yet`."""
    return status.state in ("blocked", "failed", "lost") or (status.state == "waiting" and ": " in status.why)
