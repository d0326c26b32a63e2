"""`symphony why`: explains the state of a process as a chain of steps."""

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from symphony.backends.observe import Link
from symphony.cli import arguments, screen
from symphony.errors import SymphonyError
from symphony.operations.process import Why, ago, explainable, processes, why

_HERE = "<- here"
# Longer texts do not move the column of the times to the right.
_WIDEST = 60


def command(words: arguments.Process, as_json: arguments.AsJson = False) -> None:
    """Explain a process's state: every step since its declaration, and a mark where it stopped or waits.

    Examples:
        symphony why rl learner
        symphony why agents/agent-3
    """
    stack, path = arguments.process(words, explainable)
    answer = why(stack, path)
    if not as_json:
        _print(answer)
        return
    pids: dict[str, int | None] = {}
    with suppress(SymphonyError):
        pids = {status.path: status.pid for status in processes(stack)}
    screen.show_json({**msgspec.structs.asdict(answer), "pid": pids.get(path)})


def _print(answer: Why) -> None:
    widths = [screen.width(screen.clean(link.what)) for link in answer.links]
    column = max((width for width in widths if width <= _WIDEST), default=0)
    rows = [row for link in answer.links for row in _rows(link, column)]
    if not screen.is_terminal():
        print(*screen.plain_lines([(step, text) for step, text, _ in rows]), sep="\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for step, text, style in rows:
        table.add_row(step, Text(text, style))
    screen.console().print(table)


def _rows(link: Link, column: int) -> Iterator[tuple[str, str, str]]:
    """Yield the step, the text and the style of each line of a link."""
    text = screen.clean(link.what)
    if since := ago(link.since):
        text += " " * (column - screen.width(text)) + f"   {since} ago"
    yield link.step, f"{text}   {_HERE}" if link.broken else text, "bold red" if link.broken else ""
    for line in link.more:
        yield "", f"| {screen.clean(line)}", "dim"
    if link.remedy:
        yield "", screen.clean(link.remedy), ""
