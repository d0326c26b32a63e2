"""`symphony why`: the one causal chain of a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from symphony.backends.observe import Link
from symphony.cli import choose, options, screen
from symphony.operations.times import ago
from symphony.operations.why import Why, why

_HERE = "<- here"
# A link longer than this does not push the times of the others to the right.
_WIDEST = 60


def command(words: options.Process, as_json: options.AsJson = False) -> None:
    """Tell why a process is as it is: every step from its declaration to now, the first broken one marked.

    Examples:
        symphony why rl learner
        symphony why agents/agent-3
    """
    answer = choose.of_process(words, why)
    if as_json:
        screen.show_json(answer.to_json())
        return
    _print(answer)


def _print(answer: Why) -> None:
    paint = screen.painter()
    names = max(screen.width(link.step) for link in answer.links)
    columns = os.get_terminal_size(sys.stdout.fileno()).columns - names - 2 if screen.is_terminal() else 0
    whole = [screen.width(screen.clean(link.what)) for link in answer.links]
    texts = max((width for width in whole if width <= _WIDEST), default=0)
    for link in answer.links:
        step = f"{link.step}{' ' * (names - screen.width(link.step))}  "
        for number, (line, style) in enumerate(_lines(link, texts, columns)):
            start = paint(step, "bold") if number == 0 else " " * len(step)
            print(f"{start}{paint(line, style)}".rstrip())


def _lines(link: Link, texts: int, columns: int) -> Iterator[tuple[str, str]]:
    """The lines of one link, wrapped to so many columns (0: not), each with its colour."""
    what = screen.clean(link.what)
    since = ago(link.since)
    if since:
        what += " " * (texts - screen.width(what)) + f"   {since} ago"
    if link.broken:
        what += f"   {_HERE}"
    yield from ((line, "bold red" if link.broken else "") for line in _wrapped(what, columns))
    for each in link.more:
        yield from ((line, "dim") for line in _wrapped(f"| {screen.clean(each)}", columns))
    if link.remedy:
        yield from ((line, "") for line in _wrapped(screen.clean(link.remedy), columns))


def _wrapped(text: str, columns: int) -> list[str]:
    if not columns or screen.width(text) <= columns:
        return [text]
    # Most lines fit.
    import textwrap

    return textwrap.wrap(text, max(columns, 20), break_on_hyphens=False) or [""]
