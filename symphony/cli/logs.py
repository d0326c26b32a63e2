"""`symphony logs`: what processes print, of one or merged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from symphony.backends.observe import LogLine
from symphony.cli import choose, options, screen
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.logs import chosen, logs
from symphony.operations.process import processes
from symphony.plan.names import shown

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")


def _lines(given: str | None) -> int | None:
    """How many lines -t means; -1 is all of them, as in kubectl."""
    if given in (None, "-1"):
        return None
    if not (given.isascii() and given.isdigit()):
        raise UserError(f"--tail {shown(given)} is not a number of lines", remedy="Write it as `-t 20`")
    return int(given)


def command(
    words: options.Processes = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    since: Annotated[
        str | None, typer.Option("--since", "-s", metavar="TIME", help="Only the last 90s, 5m, 2h, 1d.")
    ] = None,
    tail: Annotated[
        str | None,
        typer.Option("--tail", "-t", metavar="LINES", help="Only the last lines of each; -1 means all."),
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Put date and time before each line.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Show what the processes of an experiment print, merged in the order of time.

    With --follow, it ends when they do: with 1 where one of them failed.

    Examples:
        symphony logs rl -f
        symphony logs rl learner 'worker-*' -t 20
        symphony logs rl --since 5m --times
    """
    stack, given = choose.processes(words or ())
    lines = logs(stack, given, follow=follow, since=since, tail=_lines(tail))
    if as_json:
        for line in lines:
            print(json.dumps({**vars(line), "text": screen.without_colours(line.text)}), flush=follow)
    else:
        paths = chosen(list(stack.recorded.processes), given) if stack.recorded else []
        _print(lines, paths, follow=follow, times=times)
    return 1 if follow and _has_failed(stack, given) else 0


def _has_failed(stack: stacks.Stack, given: Sequence[str]) -> bool:
    """Whether something that was followed to its end did not come to a good one."""
    states = {status.path: status.state for status in processes(stack)}
    return any(states.get(path) in ("failed", "lost") for path in chosen(list(states), given))


def _print(lines: Iterable[LogLine], paths: list[str], *, follow: bool, times: bool) -> None:
    width = max((len(path) for path in paths), default=0) if len(paths) > 1 else 0
    colours = {path: _COLOURS[i % len(_COLOURS)] for i, path in enumerate(paths)}
    paint = screen.painter()
    for line in lines:
        prefix = paint(f"{line.path:{width}} | ", colours.get(line.path, "")) if width else ""
        moment = f"{_moment(line.time)} " if times else ""
        text = screen.clean_but_colours(line.text)
        print(f"{paint(moment, 'dim')}{prefix}{paint(text, 'bold') if line.ended else text}", flush=follow)


def _moment(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else " " * 19
