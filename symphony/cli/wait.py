"""`symphony wait`: wait until an experiment is ready or has completed."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import arguments, screen
from symphony.operations import sweep
from symphony.operations.ls import summary
from symphony.operations.stacks import match_processes
from symphony.operations.wait import TIMED_OUT, wait
from symphony.spec.convert import seconds


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

    The exit code is 0 then, 1 where a process failed, was lost or is blocked, and 124 at the timeout. A sweep
    has completed when all its trials have ended; the exit code is 1 if one failed.

    Examples:
        symphony wait pipe && symphony logs pipe
        symphony wait rl --for ready --timeout 10m
        symphony wait rl --for learner
    """
    limit = None if timeout is None else seconds(timeout)
    stack = arguments.experiment(name)
    if goal == "ready" or goal == "completed":
        statuses, code = wait(stack, (), goal, limit)
    else:
        statuses, code = wait(stack, match_processes([goal], list(stack.processes)), "completed", limit)
    state, hint = summary(stack.shown, statuses)
    if (swept := sweep.read(stack.name)) is not None:
        state, failed = swept.summary, any(trial.state == "failed" for trial in swept.trials)
        code = 1 if code == 0 and failed else code
        hint = f"symphony results {swept.name}" if code == 0 or failed else hint
    late = f" after {timeout}" if code == TIMED_OUT else ""
    print(screen.clean(f"{stack.shown}: {state}{late}{f'   {hint}' if hint else ''}"))
    raise typer.Exit(code)
