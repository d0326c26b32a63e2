"""How the command line writes: clean text, tables that line up, colour on a terminal; commands call it."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Control characters, and the marks that turn the direction of text or hide in it.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean(text: object) -> str:
    """Text on one line without anything that moves the cursor, colours or hides; for all that is not ours."""
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(_shown(character) for character in raw)


def _shown(character: str) -> str:
    if character in "\n\r\t\v\f":
        return " "
    return "\ufffd" if unicodedata.category(character) in _HIDDEN else character


def is_terminal() -> bool:
    """Whether standard output is a terminal that understands more than lines."""
    try:
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    except (AttributeError, ValueError):
        return False


def show_json(value: Any) -> None:
    """The facts, for a program to read."""
    print(json.dumps(value, indent=2, sort_keys=False, ensure_ascii=True, default=str))


def show_table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    styles: Sequence[str] = (),
    right: Sequence[int] = (),
    row_styles: Sequence[str] = (),
) -> None:
    """A table whose columns line up, those in `right` to the right.

    On a terminal the head is dim, and the last column is cut to fit.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    if is_terminal():
        _rich_table(head, cells, styles, right, row_styles)
        return
    for line in plain_table(head, cells, right):
        print(line)


def painter() -> Callable[[str, str], str]:
    """Puts text into a colour on a terminal, and leaves it alone elsewhere."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return lambda text, style: text
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text) if text and style else text


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """The same as lines of text, without colour or boxes."""
    table = [list(head), *map(list, rows)]
    widths = [max(width(row[i]) for row in table) for i in range(len(head))]
    return [
        "  ".join(_padded(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip()
        for row in table
    ]


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _padded(text: str, to: int, right: bool) -> str:
    space = " " * (to - width(text))
    return space + text if right else text + space


def _rich_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str],
    right: Sequence[int],
    row_styles: Sequence[str],
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for index, title in enumerate(head):
        last = index == len(head) - 1
        table.add_column(
            title,
            no_wrap=True,
            overflow="ellipsis" if last else "fold",
            min_width=width(title),
            justify="right" if index in right else "left",
        )
    for number, row in enumerate(rows):
        cells = [Text(cell, style=styles[i] if i < len(styles) else "") for i, cell in enumerate(row)]
        table.add_row(*cells, style=row_styles[number] if row_styles else None)
    Console(highlight=False).print(table)
