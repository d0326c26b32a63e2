"""`symphony scp`: copies files and folders to and from a process."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from symphony.backends.access import OnBytes
from symphony.cli import arguments, screen
from symphony.operations import access
from symphony.operations.stacks import match
from symphony.plan.problems import count


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[EXPERIMENT] SOURCE TARGET",
            help="Either SOURCE or TARGET is PROCESS:PATH; the other is a local path.",
            autocompletion=arguments.complete_copy,
        ),
    ],
) -> None:
    """Copy a file or folder to or from a process. A relative PATH starts at its working directory.

    Examples:
        symphony scp rl learner:checkpoints .
        symphony scp config.yaml learner:/tmp/
    """
    if not 2 <= len(words) <= 3:
        raise typer.BadParameter("expected a SOURCE and a TARGET")
    sides = access.parse_sides(words[-2], words[-1])
    stack = arguments.require_up(arguments.experiment(words[0] if len(words) == 3 else None))
    process = match(sides.process, stack.processes, "process")
    began = time.monotonic()
    from rich.filesize import decimal

    with _progress() as on_bytes:
        done = access.copy(stack, sides._replace(process=process), on_bytes)
    for name in done.left_out:
        print(screen.clean(f"symphony: not copied: {name}"), file=sys.stderr)
    seconds = time.monotonic() - began
    copied = f"{count(done.files, 'file')}, {decimal(done.bytes)}"
    print(screen.clean(f"Copied {copied} {'to' if sides.sends else 'from'} {process} in {seconds:.1f} s."))


@contextmanager
def _progress() -> Generator[OnBytes]:
    if not screen.is_terminal():
        yield lambda _: None
        return
    from rich.progress import FileSizeColumn, Progress, TimeElapsedColumn, TransferSpeedColumn

    columns = (FileSizeColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen.console(), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda size: progress.advance(task, size)
