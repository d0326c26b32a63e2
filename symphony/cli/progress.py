"""Processes as they change: rows replaced in place on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from symphony.cli import screen
from symphony.operations.cluster import ClusterEnded
from symphony.operations.plan import Planned
from symphony.operations.process import in_order
from symphony.operations.up import Ended, Progress, Remark, UpEvent, Watched

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
    "working": "dim",
    "stopping": "dim",
}
_UNDER_WAY = ("working", "stopping")
# More rows than this are told as a bar and the last few.
_ROWS = 16
# Of what an image sends, in columns.
_BAR = 10
# So many processes in one state are named one by one.
_NAMED = 3


def alike(statuses: Sequence[ProcessStatus]) -> list[tuple[str, ProcessStatus]]:
    """Processes that are in the same state for the same reason, as `a, b, c and 37 more` with one of them."""
    groups: dict[tuple[str, ...], list[ProcessStatus]] = {}
    for each in statuses:
        groups.setdefault((each.state, each.why, each.last, *each.words), []).append(each)
    return [(names_of([each.path for each in group]), group[0]) for group in groups.values()]


def names_of(paths: Sequence[str]) -> str:
    """`a, b, c and 37 more`."""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"


def _cause(status: ProcessStatus) -> str:
    return status.why.rpartition(": ")[2]


def _is_trouble(status: ProcessStatus) -> bool:
    """Whether it is more than the usual way to running, of which `not scheduled yet` is a step."""
    return status.state in ("failed", "lost") or (status.state == "waiting" and ": " in status.why)


class Board:
    """Shows progress while the block runs."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._width = 0
        self._total = 0
        self.expect(names)
        self._rows: dict[str, Progress] = {}
        self._began = time.monotonic()
        self._watched: list[ProcessStatus] = []
        self._shown_causes: set[str] = set()
        self._live: Any = None

    def __enter__(self) -> Self:
        if screen.is_terminal():
            from rich.live import Live

            self._live = Live(get_renderable=self._drawn, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def expect(self, names: Collection[str]) -> None:
        """What is going to change: how long the bar is, and how wide the names are."""
        self._total = len(names)
        self._width = max((screen.width(screen.clean(name)) for name in names), default=0)

    def show(self, event: UpEvent, show_plan: Callable[[Planned], None] | None) -> None:
        """What happens in an `up`."""
        match event:
            case Planned(changes=changes):
                self.expect([change.path for change in changes if change.kind != "keep"])
                if show_plan is not None:
                    self.above(partial(show_plan, event))
            case Progress():
                self.tell(event)
            case Remark(text=text):
                self.say(text)
            case Watched(statuses=statuses):
                self.watch(statuses)
            case Ended() | ClusterEnded():
                self.end()

    def tell(self, progress: Progress) -> None:
        """One process goes on."""
        before = self._rows.get(progress.path)
        self._rows[progress.path] = progress
        is_new = before is None or before.note != progress.note
        if self._live is None and (progress.state not in _UNDER_WAY or (progress.note and is_new)):
            name = screen.clean(progress.path)
            room = " " * max(0, self._width - screen.width(name))
            note = f"   {progress.note}" if progress.note else ""
            seconds = f"{progress.seconds:6.1f} s" if progress.seconds or not note else ""
            screen.tell(f"  {name}{room}  {progress.state:9}  {seconds}{note}")

    def watch(self, statuses: Sequence[ProcessStatus]) -> None:
        """The work is done; how the processes come up takes the place of the rows."""
        if self._live is None and not self._watched:
            left = sum(1 for status in statuses if status.state == "waiting")
            screen.tell(f"  {left} of {len(statuses)} are not running yet, waiting for them")
        self._watched = sorted(statuses, key=lambda status: in_order(status.path))
        if self._live is None:
            self._tell_trouble()

    def _tell_trouble(self) -> None:
        """What keeps processes from running, each cause once: a crash loop tells it again in other words."""
        troubled = [each for each in self._watched if _is_trouble(each)]
        new = [each for each in troubled if _cause(each) not in self._shown_causes]
        self._shown_causes.update(map(_cause, new))
        for names, status in alike(new):
            screen.tell(screen.clean(f"  {names}  {status.state}: {status.why}"))

    def say(self, text: str) -> None:
        """A line above the rows."""
        if self._live is not None:
            self._live.console.print(screen.clean(text), markup=False, highlight=False)
        else:
            screen.tell(screen.clean(text))

    def above(self, show: Callable[[], None]) -> None:
        """Let something print itself above the rows."""
        if self._live is not None:
            self._live.stop()
            show()
            self._live.start()
            return
        try:
            show()
        except OSError:
            screen.silence()

    def end(self) -> None:
        """Leave the rows as they are; what is printed now comes below them."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    @property
    def done(self) -> int:
        """How many processes have come to where they go."""
        return sum(1 for row in self._rows.values() if row.state not in _UNDER_WAY)

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        if self._watched:
            return Group(*self._come_up())
        rows = list(self._rows.values())
        parts: list[Any] = []
        if len(rows) > _ROWS:
            parts.append(self._bar())
            messages = [row for row in rows if row.state == "failed" or row.note]
            rows = messages[-_ROWS:] or rows[-4:]
        width = max((screen.width(row.path) for row in rows), default=0)
        for row in rows:
            seconds = f"{row.seconds:6.1f} s" if row.seconds or row.state not in _UNDER_WAY else ""
            name = screen.clean(row.path)
            line = Text(f"  {name}{' ' * (width - screen.width(name))}  ", no_wrap=True, overflow="ellipsis")
            line.append(f"{row.state:9}", _COLOURS[row.state])
            parts.append(line.append(f"  {seconds}{f'   {row.note}' if row.note else ''}"))
            if row.share >= 0:
                full = round(row.share * _BAR)
                line.append(f"   {'━' * full}", "green").append("─" * (_BAR - full), "dim")
                line.append(f" {row.size}")
        return Group(*parts)

    def _come_up(self) -> list[Any]:
        """A line each for the processes that are not running yet, and how many are."""
        from rich.text import Text

        waiting = [status for status in self._watched if status.state not in ("running", "completed")]
        shown = waiting[:_ROWS]
        width = max((screen.width(status.path) for status in shown), default=0)
        seconds = time.monotonic() - self._began
        parts: list[Any] = [
            Text(f"  {len(self._watched) - len(waiting)} of {len(self._watched)} are up   {seconds:.1f} s")
        ]
        for status in shown:
            name = screen.clean(status.path)
            line = Text(f"  {name}{' ' * (width - screen.width(name))}  ", no_wrap=True, overflow="ellipsis")
            line.append(status.state, "bold red" if status.state in ("failed", "lost") else "dim")
            parts.append(line.append(f"  {screen.clean(status.why)}"))
        if len(waiting) > len(shown):
            parts.append(Text(f"  and {len(waiting) - len(shown)} more", "dim"))
        return parts

    def _bar(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        total = max(self._total, len(self._rows))
        line = Table.grid(padding=(0, 1))
        seconds = time.monotonic() - self._began
        line.add_row(
            Text(f"  {self.done}/{total}"), ProgressBar(total, self.done, width=30), Text(f"{seconds:.1f} s")
        )
        return line
