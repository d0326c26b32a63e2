"""Output of the command line: cleaned text, and tables, drawn by rich on a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

DEBUG_VARIABLE = "SYMPHONY_DEBUG"
# Categories of control characters and invisible marks, such as changes of the text direction.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# Longer messages are truncated in tables; `symphony why` and --json show them whole.
_LONGEST_CELL = 120
# Columns are at least as wide as their longest word, up to this width.
_WORD = 24
_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")


def clean(text: object) -> str:
    """Return untrusted text on a single line, without control characters and invisible marks."""
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(_visible(character) for character in raw)


def clean_but_colours(text: str) -> str:
    """Return cleaned text that keeps its colours on a terminal."""
    if "\x1b" not in text or not is_terminal() or os.environ.get("NO_COLOR"):
        return clean(without_colours(text))
    parts = _COLOUR.split(text)
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(parts)) + "\x1b[0m"


def program_line(line: str) -> str:
    """Return a line of output of the user's program, with a prefix."""
    return clean(f"program | {without_colours(line)}")


def without_colours(text: str) -> str:
    return _COLOUR.sub("", text)


def _visible(character: str) -> str:
    if character in "\n\r\t\v\f":
        return " "
    # Imported here, since most text is ASCII.
    import unicodedata

    return "\ufffd" if unicodedata.category(character) in _HIDDEN else character


def is_terminal() -> bool:
    """Return whether standard output is a terminal with cursor control."""
    try:
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    except (AttributeError, ValueError):
        return False


def console() -> Console:
    """Return rich's console on standard output, as wide as the terminal."""
    from rich.console import Console

    # A parent may have exported the $COLUMNS of another terminal.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return Console(highlight=False, markup=False, emoji=False, _environ=environment)


def tell(text: str) -> None:
    """Print a line; if the reader is gone, discard further output, so that `| head` does not stop an `up`."""
    try:
        print(text, flush=True)
    except OSError:
        silence()


def silence() -> None:
    """Discard everything that is printed from now on."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def show_error(text: str, details: Sequence[str] = ()) -> None:
    """Print an error and its details on standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"symphony: {clean(text)}", *map(clean, details), sep="\n", file=sys.stderr, flush=True)


def show_json(value: Any) -> None:
    """Print a value as JSON; records are objects, sets are lists."""
    print(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)


def show_table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    styles: Sequence[str] = (),
    right: Sequence[int] = (),
    row_styles: Sequence[str] = (),
    states: Sequence[str] = (),
) -> None:
    """Print a table without its empty columns.

    On a terminal, long cells wrap, except in the first two columns, which hold names. `right` has the columns
    to align to the right; `styles` are of the columns, `row_styles` of the rows, `states` of the cells in the
    column `state`.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(head)) if i < 2 or any(row[i] for row in cells)]
    if not is_terminal():
        table = [[row[i] for i in kept] for row in (head, *cells)]
        print(*plain_lines(table, [column for column, i in enumerate(kept) if i in right]), sep="\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i in kept:
        words = [width(word) for row in cells for word in row[i].split()]
        least = max(width(row[i]) for row in cells) if i < 2 and cells else min(max(words, default=0), _WORD)
        least = max(least, width(head[i]))
        justify = "right" if i in right else "left"
        style = styles[i] if i < len(styles) else ""
        table.add_column(
            Text(head[i]), justify=justify, style=style, no_wrap=i < 2, min_width=least, overflow="fold"
        )
    for number, row in enumerate(cells):
        styled = (Text(row[i], states[number] if states and head[i] == "state" else "") for i in kept)
        table.add_row(*styled, style=row_styles[number] if row_styles else None)
    console().print(table)


def state_style(*, well: bool, bad: bool) -> str:
    """Return the style of a state on a terminal."""
    return "green" if well else "bold red" if bad else "yellow"


def plain_lines(table: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table with aligned columns; the columns in `right` are aligned to the right."""
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]

    def padded(i: int, cell: str) -> str:
        padding = " " * (widths[i] - width(cell))
        return padding + cell if i in right else cell + padding

    return ["  ".join(padded(i, cell) for i, cell in enumerate(row)).rstrip() for row in table]


def painter() -> Callable[[str, str], str]:
    """Return a function that colours text on a terminal, and returns it unchanged elsewhere."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return lambda text, style: text
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text) if text and style else text


def width(text: str) -> int:
    """Return the width of a text on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str) -> str:
    """Return a message, truncated for a table."""
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}\u2026"
