"""`symphony scp`: files and folders to and from a process."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from symphony.backends.access import Tell
from symphony.cli import choose, complete, screen
from symphony.operations import stacks
from symphony.operations.scp import Sides, copy, sides
from symphony.plan.problems import count


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
    stack, wanted = _meant(words)
    path = choose.process_of(stack, wanted.process)
    began = time.monotonic()
    from rich.filesize import decimal

    with _progress() as tell:
        done = copy(stack, wanted._replace(process=path), tell)
    for name in done.left_out:
        print(screen.clean(f"left out: {name}"), file=sys.stderr)
    seconds = time.monotonic() - began
    where = f"to {path}" if wanted.sends else f"from {path}"
    what = f"{count(done.files, 'file')}, {decimal(done.bytes)} copied {where}, in {seconds:.1f} s."
    print(screen.clean(what))


def _meant(words: list[str]) -> tuple[stacks.Stack, Sides]:
    """The experiment comes first, or last, or is the current one."""
    if len(words) == 2:
        return choose.experiment(None), sides(*words)
    first, *rest = choose.experiment_first(words)
    return choose.either(
        lambda: (choose.experiment(first), sides(*rest)),
        lambda: (stacks.find_one(words[2]), sides(words[0], words[1])),
    )


@contextmanager
def _progress() -> Generator[Tell]:
    """On a terminal one line tells how far it is."""
    if not screen.is_terminal():
        yield lambda _: None
        return
    from rich.progress import FileSizeColumn, Progress, TimeElapsedColumn, TransferSpeedColumn

    with Progress(FileSizeColumn(), TransferSpeedColumn(), TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda size: progress.advance(task, size)
