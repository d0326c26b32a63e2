"""`symphony wait`: wait until an experiment is ready or has completed."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.errors import UserError
from symphony.operations.ls import summary
from symphony.operations.stacks import match_processes
from symphony.operations.wait import TIMED_OUT, wait

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def command(
    name: arguments.Experiment = None,
    goal: Annotated[
        str,
        typer.Option(
            "--for", metavar="ready|completed|PROCESS", help="What to wait for; completed by default."
        ),
    ] = "completed",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Give up after this long, such as 90s, 30m or 8h.")
    ] = None,
) -> None:
    """Wait until an experiment is ready or has completed, or until a process has completed.

    The exit code is 0 then, 1 where a process failed, was lost or is blocked, and 124 at the timeout.

    Examples:
        symphony wait pipe && symphony logs pipe
        symphony wait rl --for ready --timeout 10m
        symphony wait rl --for learner
    """
    seconds, stack = _seconds(timeout), arguments.experiment(name)
    known = list(stack.processes)
    is_process = goal not in ("ready", "completed") or goal in known
    paths = match_processes([goal], known) if is_process else ()
    *_, last = wait(stack, paths, "ready" if goal == "ready" and not is_process else "completed", seconds)
    state, hint = summary(stack.shown, last.statuses)
    late = f" after {timeout}" if last.code == TIMED_OUT else ""
    print(screen.clean(f"{stack.shown}: {state}{late}{f'   {hint}' if hint else ''}"))
    raise typer.Exit(last.code or 0)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if found is None:
        raise UserError(f"--timeout {text} is no time", remedy="Write 90s, 30m, 8h or 2d")
    return float(found[1]) * _UNITS[found[2] or "s"]
