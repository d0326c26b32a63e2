"""How the command line writes: clean text, tables that line up, colour on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

DEBUG_VARIABLE = "SYMPHONY_DEBUG"
# Control characters, and the marks that turn the direction of text or hide in it.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# No column is narrower than its longest word, but for longer words than this, or where that is not enough.
_NARROWEST, _LONGEST = 8, 24
_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")


def clean(text: object) -> str:
    """Text on one line without anything that moves the cursor, colours or hides; for all that is not ours."""
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(_shown(character) for character in raw)


def clean_but_colours(text: str) -> str:
    """The same with the colours of the text where there is a terminal to show them."""
    if "\x1b" not in text or not is_terminal() or os.environ.get("NO_COLOR"):
        return clean(without_colours(text))
    parts = _COLOUR.split(text)
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(parts)) + "\x1b[0m"


def of_program(line: str) -> str:
    """A line that the program itself printed, marked as such."""
    return clean(f"program | {without_colours(line)}")


def without_colours(text: str) -> str:
    return _COLOUR.sub("", text)


def _shown(character: str) -> str:
    if character in "\n\r\t\v\f":
        return " "
    # Most screens are ASCII.
    import unicodedata

    return "\ufffd" if unicodedata.category(character) in _HIDDEN else character


def is_terminal() -> bool:
    """Whether standard output is a terminal that understands more than lines."""
    try:
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
    except (AttributeError, ValueError):
        return False


def tell(text: str) -> None:
    """A line of work that goes on when nobody reads it any more: `| head` must not stop an `up` half-way."""
    try:
        print(text, flush=True)
    except OSError:
        silence()


def silence() -> None:
    """What is printed from now on goes nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def show_error(text: str, details: Sequence[str] = ()) -> None:
    """Say on standard error what is wrong, in one line and those under it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"symphony: {clean(text)}", *map(clean, details), sep="\n", file=sys.stderr, flush=True)


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

    On a terminal the head is dim, columns and rows have their styles; a cell that does not fit goes on below.
    """
    cleaned = [[clean(cell) for cell in row] for row in rows]
    if not is_terminal():
        print(*("".join(cells).rstrip() for cells in plain_table(head, cleaned, right)), sep="\n")
        return
    paint = painter()
    # The terminal itself, not $COLUMNS: what a parent exported may be another one's.
    columns = os.get_terminal_size(sys.stdout.fileno()).columns or 80
    if _is_wider([head, *cleaned], columns):
        # A column in which nothing stands leaves its room to the others.
        kept = [i for i in range(len(head)) if i < 2 or any(row[i] for row in cleaned)]
        head, cleaned = [head[i] for i in kept], [[row[i] for i in kept] for row in cleaned]
        styles = [styles[i] for i in kept if i < len(styles)]
        right = [place for place, i in enumerate(kept) if i in right]
    widths = fitted([head, *cleaned], columns)
    folded = [(number, line) for number, row in enumerate(cleaned) for line in wrapped(row, widths)]
    lines = plain_table(head, [line for _, line in folded], right)
    for number, cells in enumerate(lines):
        row_style = "dim" if number == 0 else row_styles[folded[number - 1][0]] if row_styles else ""
        cells[-1] = cut(cells[-1], columns - sum(map(width, cells[:-1])))
        own = [*styles, *[""] * len(cells)] if number else [""] * len(cells)
        print("".join(paint(cell, own[i] or row_style) for i, cell in enumerate(cells)))


def painter() -> Callable[[str, str], str]:
    """Puts text into a colour on a terminal, and leaves it alone elsewhere."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return lambda text, style: text
    from rich.style import Style

    return lambda text, style: Style.parse(style).render(text) if text and style else text


def plain_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[list[str]]:
    """Head and rows with each cell padded to the width of its column, and nothing at the end of a line."""
    table = [list(head), *map(list, rows)]
    widths = [max(width(row[i]) for row in table) for i in range(len(head))]
    last = len(head) - 1
    return [
        [_padded(cell, widths[i], i in right) + "  " * (i != last) for i, cell in enumerate(row[:-1])]
        + [_padded(row[-1], widths[last], right=True) if last in right else row[-1]]
        for row in table
    ]


def _is_wider(table: Sequence[Sequence[str]], columns: int) -> bool:
    widths = [max(map(width, cells)) for cells in zip(*table, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1) > columns


def fitted(table: Sequence[Sequence[str]], columns: int) -> list[int]:
    """How wide columns may be: the last ones shrink first, the first two, with the names, never."""
    widths = [max(map(width, cells)) for cells in zip(*table, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - columns
    for longest in (_LONGEST, _NARROWEST):
        for i in range(len(widths) - 1, 1, -1):
            words = (width(word) for row in table for word in row[i].split())
            least = max(_NARROWEST, min(max(words, default=0), longest))
            taken = max(0, min(excess, widths[i] - least))
            widths[i] -= taken
            excess -= taken
    return widths


def wrapped(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """The lines of a row: what is too wide for its column goes on below, after a space where there is one."""
    cells = [_folded(cell, columns) for cell, columns in zip(row, widths, strict=True)]
    return [list(line) for line in zip_longest(*cells, fillvalue="")]


def _folded(text: str, columns: int) -> list[str]:
    if width(text) <= columns:
        return [text]
    # Most cells fit.
    import textwrap

    lines = textwrap.wrap(text, max(columns, 1), break_on_hyphens=False)
    return [cut(line, columns) for line in lines] or [""]


def cut(text: str, columns: int) -> str:
    """As much of a text as fits, with an ellipsis where it goes on."""
    if width(text) <= columns:
        return text
    kept = text[: max(0, columns - 1)]
    while width(kept) > columns - 1 and kept:
        kept = kept[:-1]
    return f"{kept}\u2026"


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, to: int, right: bool) -> str:
    space = " " * (to - width(text))
    return space + text if right else text + space
