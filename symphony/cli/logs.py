"""`symphony logs`: the merged output of processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from symphony.backends.observe import LogLine
from symphony.cli import arguments, screen
from symphony.errors import UserError
from symphony.operations.process import logs, processes
from symphony.operations.stacks import match_processes
from symphony.plan.names import shown

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")


def command(
    words: arguments.Processes = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new output.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", "-s", metavar="TIME", help="Only the last 90s, 5m, 2h, 1d.")
    ] = None,
    tail: Annotated[
        str | None,
        typer.Option(
            "--tail", "-t", metavar="LINES", help="Only the last lines of each process; -1 for all."
        ),
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Print date and time before each line.")] = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Print the output of the processes of an experiment, merged in the order of time.

    With --follow, it ends when they end, with exit code 1 if one of them failed.

    Examples:
        symphony logs rl -f
        symphony logs rl learner 'worker-*' -t 20
        symphony logs rl --since 5m --times
    """
    stack, names = arguments.processes(words or ())
    lines = logs(stack, names, follow=follow, since=since, tail=_line_count(tail))
    paths = match_processes(names, list(stack.processes))
    if as_json:
        for line in lines:
            print(json.dumps({**vars(line), "text": screen.without_colours(line.text)}), flush=follow)
    else:
        _print(lines, paths, follow=follow, times=times)
    if not follow:
        return 0
    failed = [status for status in processes(stack) if status.state in ("failed", "lost")]
    return 1 if any(status.path in paths for status in failed) else 0


def _line_count(tail: str | None) -> int | None:
    if tail in (None, "-1"):
        return None
    if not (tail.isascii() and tail.isdigit()):
        raise UserError(f"--tail {shown(tail)} is not a number of lines", remedy="Write it as `-t 20`")
    return int(tail)


def _print(lines: Iterable[LogLine], paths: list[str], *, follow: bool, times: bool) -> None:
    width = max((len(path) for path in paths), default=0) if len(paths) > 1 else 0
    colours = {path: _COLOURS[i % len(_COLOURS)] for i, path in enumerate(paths)}
    paint = screen.painter()
    for line in lines:
        prefix = paint(f"{line.path:{width}} | ", colours.get(line.path, "")) if width else ""
        moment = paint(f"{_moment(line.time)} ", "dim") if times else ""
        text = screen.clean_but_colours(line.text)
        print(f"{moment}{prefix}{paint(text, 'bold') if line.ended else text}", flush=follow)


def _moment(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else " " * 19
