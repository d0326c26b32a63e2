"""`symphony scp`: files and folders to and from a process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from symphony.backends.access import Copied
from symphony.cli import choose, complete, screen
from symphony.operations.scp import copy, sides
from symphony.plan.problems import count

_EVERY = 0.2
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] SOURCE TARGET",
            help="One of them is PROCESS:PATH, the other a path here.",
            autocompletion=complete.copied,
        ),
    ],
) -> None:
    """Copy a file or folder to or from a process. A relative PATH begins at the folder it runs in.

    Examples:
        symphony scp rl learner:checkpoints .
        symphony scp config.yaml learner:/tmp/
    """
    if not 2 <= len(words) <= 3:
        raise typer.BadParameter("name what to copy and where to")
    wanted = sides(words[-2], words[-1])
    stack = choose.experiment(words[0] if len(words) == 3 else None)
    path = choose.process_of(stack, wanted.process)
    began = time.monotonic()
    done = _shown(copy(stack, wanted._replace(process=path)))
    for name in done.left_out:
        print(screen.clean(f"left out: {name}"), file=sys.stderr)
    seconds = time.monotonic() - began
    where = f"to {path}" if wanted.sends else f"from {path}"
    print(
        screen.clean(
            f"{count(done.files, 'file')}, {_amount(done.bytes)} copied {where}, in {seconds:.1f} s."
        )
    )


def _shown(copying: Iterator[Copied]) -> Copied:
    """How it ended; on a terminal one line tells how far it is."""
    done, shown_at = Copied(), time.monotonic()
    terminal = screen.is_terminal()
    is_told = False
    try:
        for done in copying:
            if terminal and time.monotonic() - shown_at > _EVERY:
                print(f"\r\033[K  {count(done.files, 'file')}, {_amount(done.bytes)}", end="", flush=True)
                shown_at, is_told = time.monotonic(), True
    finally:
        if is_told:
            print("\r\033[K", end="", flush=True)
    return done


def _amount(size: int) -> str:
    """A size in the unit that fits: `3 bytes`, `1.5 MiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{size} bytes"
