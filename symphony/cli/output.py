"""Shows what processes print, of one or merged; `logs` calls it, and the command table without a parser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from symphony.backends.interface import LogLine
from symphony.cli import choose, screen
from symphony.errors import UserError
from symphony.operations import stacks
from symphony.operations.logs import chosen, logs
from symphony.operations.matching import AmbiguousError

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")


def show(
    *words: str,
    follow: bool = False,
    since: str | None = None,
    tail: int | None = None,
    times: bool = False,
    as_json: bool = False,
) -> None:
    """The lines of `[EXPERIMENT] [PROCESS]...`; the options are those of the command."""
    stack, said = _meant(words)
    lines = logs(stack, said, follow=follow, since=since, tail=tail)
    if as_json:
        for line in lines:
            print(json.dumps(vars(line)), flush=follow)
        return
    paths = chosen(list(stack.recorded.processes), said) if stack.recorded else []
    _print(lines, paths, follow=follow, times=times)


def _meant(words: Sequence[str]) -> tuple[stacks.Stack, Sequence[str]]:
    """The experiment and the processes: the first word may be a process of the only experiment."""
    if not words:
        return choose.experiment(None), []
    try:
        return choose.experiment(words[0]), words[1:]
    except AmbiguousError:
        raise
    except UserError as error:
        try:
            stack = stacks.one(None)
            chosen(list(stack.recorded.processes) if stack.recorded else [], words)
        except UserError:
            raise error from None
        return stack, words


def _print(lines: Iterable[LogLine], paths: list[str], *, follow: bool, times: bool) -> None:
    width = max((len(path) for path in paths), default=0) if len(paths) > 1 else 0
    colours = {path: _COLOURS[i % len(_COLOURS)] for i, path in enumerate(paths)}
    paint = screen.painter()
    for line in lines:
        prefix = paint(f"{line.path:{width}} | ", colours.get(line.path, "")) if width else ""
        moment = f"{_moment(line.time)} " if times else ""
        text = screen.clean(line.text)
        print(f"{paint(moment, 'dim')}{prefix}{paint(text, 'bold') if line.ended else text}", flush=follow)


def _moment(seconds: float | None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds)) if seconds else "        "
