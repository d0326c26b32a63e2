"""`symphony wait`: waits until an experiment is ready or has completed."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, TextIO

import typer

from symphony.backends.observe import ProcessStatus
from symphony.cli import arguments, screen
from symphony.operations import stacks, sweep
from symphony.operations.ls import summary
from symphony.operations.process import TIMED_OUT, explainable, wait
from symphony.operations.stacks import Stack, match_processes
from symphony.spec.setting import seconds


def command(
    name: arguments.Experiment = None,
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="ready|completed|PROCESS",
            help="Wait until all are ready or completed, or this process has completed.",
        ),
    ] = "completed",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Give up after this long, such as 90s, 30m or 8h.")
    ] = None,
) -> None:
    """Wait until an experiment is ready or has completed, or a process has completed.

    An experiment with primaries has completed when they have; its other processes do not count. The exit
    code is 0 if so, the exit code of a primary or named process that failed, 1 if another process that
    counts failed, was lost, blocked or stopped, and 124 at the timeout; for several experiments, the
    highest. A sweep has completed when all its trials have ended; the code is 1 if one failed.

    Examples:
        symphony wait pipe && symphony logs pipe
        symphony wait rl --for ready --timeout 10m
        symphony wait rl --for learner
        symphony wait 'sweep.*'
    """
    began, limit = time.monotonic(), None if timeout is None else seconds(timeout)
    names: Sequence[str | None] = [name]
    if name is not None and set(name) & set("*?["):
        live = (stack.name for stack in stacks.every() if stack.recorded is not None)
        names = [str(matched) for matched in stacks.match_names([name], live)]
    codes: list[int] = []
    for word in names:
        left = None if limit is None else max(0.0, limit - (time.monotonic() - began))
        text = "" if limit is None else f"{limit:g} s"
        codes.append(wait_for(arguments.experiment(word), goal, left, text)[1])
    raise typer.Exit(max(codes))


def wait_for(
    stack: Stack,
    goal: str = "completed",
    timeout: float | None = None,
    timeout_text: str = "",
    *,
    to: TextIO | None = None,
) -> tuple[Sequence[ProcessStatus], int]:
    """Wait, print the state of the experiment, and return the statuses and the exit code.

    Raises:
        UserError: The experiment is not up.
    """
    if stack.recorded is None:
        raise stack.not_up()
    if goal == "ready" or goal == "completed":
        statuses, code = wait(stack, (), goal, timeout)
    else:
        statuses, code = wait(stack, match_processes([goal], list(explainable(stack))), "completed", timeout)
    state, hint = summary(stack.display_name, statuses)
    if code == 0 and goal == "completed" and state == "running":
        # The primaries have completed; others still run for their termination_delay.
        state = "completed"
    if (swept := sweep.read(stack.name)) is not None:
        state, failed = swept.summary, any(trial.state == "failed" for trial in swept.trials)
        code = 1 if code == 0 and failed else code
        if swept.has_ended:
            hint = f"symphony results {swept.name}"
        elif code != TIMED_OUT:
            hint = f"symphony sweep {swept.name} continues it"
    after = f", after a wait of {timeout_text}" if code == TIMED_OUT else ""
    text = f"{stack.display_name}: {state}{after}{f'   {hint}' if hint else ''}"
    print(screen.clean(text), file=to or sys.stdout)
    return statuses, code
