"""`symphony logs`: prints the merged output of processes."""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from symphony.backends.observe import LogLine
from symphony.cli import arguments, screen
from symphony.errors import SymphonyError, UserError
from symphony.operations import run_logs, runs, stacks
from symphony.operations.process import BAD, explainable, logs, processes, seconds
from symphony.operations.stacks import match_processes
from symphony.plan.names import quoted

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
    run: Annotated[
        str | None, typer.Option("--run", metavar="N", help="Show the kept logs of run N, or of `all` runs.")
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="PATTERN", help="Only lines that match this regex."),
    ] = None,
    context: Annotated[
        int, typer.Option("--context", "-C", min=0, metavar="LINES", help="Lines of context around matches.")
    ] = 0,
    times: Annotated[bool, typer.Option("--times", help="Print date and time before each line.")] = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Print the output of the processes of an experiment, merged in the order of time.

    Without names, only rank 0 of equal workers (replicas=, rendezvous=True) is shown, of a past run all.
    --follow ends when the shown processes have ended; the exit code is 1 if a named process failed or was
    lost, without names any process. If the experiment was deleted, the logs of its last run are printed.

    Examples:
        symphony logs rl -f
        symphony logs rl learner 'worker-*' -t 20
        symphony logs rl --since 5m --times
        symphony logs rl --run 6 --grep Traceback -C 5
    """
    if run is not None or (words and not follow and _is_kept_only(words[0])):
        if follow:
            raise UserError("--follow cannot be used with the logs of a past run", remedy="Remove --follow")
        lines, paths = _kept_lines(words or (), run, since, _line_count(tail))
        _show(lines, paths, grep, context, follow=False, times=times, as_json=as_json)
        return 0
    stack, names = arguments.processes(words or (), explainable)
    paths = match_processes(names, list(explainable(stack)))
    lines = logs(stack, names, follow=follow, since=since, tail=_line_count(tail))
    lines = runs.keep_followed(stack, lines) if follow else lines
    _show(lines, paths, grep, context, follow=follow, times=times, as_json=as_json)
    if not follow:
        return 0
    # An `up` or a restart may have changed it meanwhile.
    stack = stacks.read(stack.name)
    failed = [status for status in processes(stack) if status.state in BAD]
    return 1 if any(status.path in paths for status in failed) else 0


def _is_kept_only(word: str) -> bool:
    """Return whether an experiment is not up but has kept runs."""
    stack = stacks.find_exact(word)
    return stack is not None and stack.recorded is None and bool(runs.numbers(stack.name))


def _kept_lines(
    words: Sequence[str], run: str | None, since: str | None, tail: int | None
) -> tuple[Iterable[LogLine], list[str]]:
    """Return the lines of a run, by default the last run, and its processes."""
    name, names = run_logs.find(words)
    # The last run may still be running.
    with suppress(SymphonyError):
        runs.keep_last_logs(stacks.read(name))
    moment = time.time() - seconds(since) if since and since != "0" else 0
    number = run_logs.number_of(run) if run else runs.numbers(name)[-1]
    if number is None:
        known = runs.every(name)
        paths = [f"{past.number}:{path}" for past in known for path in run_logs.processes(name, past)]
        return run_logs.all_runs(name, names, moment, tail), paths
    kept = run_logs.processes(name, runs.read(name, number))
    return run_logs.logs(name, number, names, moment, tail), match_processes(names, list(kept))


def _show(
    lines: Iterable[LogLine],
    paths: list[str],
    grep: str | None,
    context: int,
    *,
    follow: bool,
    times: bool,
    as_json: bool,
) -> None:
    lines = lines if grep is None else run_logs.matching(lines, grep, context)
    if as_json:
        for line in lines:
            text = screen.without_colours(line.text)
            shown = {"path": line.path, "text": text, "time": line.time, "ended": line.ended}
            print(json.dumps(shown), flush=follow)
    else:
        _print(lines, paths, follow=follow, times=times)


def _line_count(tail: str | None) -> int | None:
    if tail in (None, "-1"):
        return None
    if not (tail.isascii() and tail.isdigit()):
        raise UserError(f"--tail {quoted(tail)} is not a number of lines", remedy="Write `-t 20`")
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
