"""`symphony delete-batch`: several experiments go, by name or pattern."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from symphony.cli import choose, complete, options, screen
from symphony.cli.delete import show_end
from symphony.engine.errors import Interrupted
from symphony.errors import SymphonyError
from symphony.operations.delete import Deleted, delete, matching
from symphony.operations.stacks import Stack
from symphony.plan.problems import count

# An engine waits most of the time, and takes 100 MB.
_AT_ONCE = 4


def command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME_OR_PATTERN...",
            help="Full names, shell patterns such as 'sweep-*', expressions such as '/^sweep/'.",
            autocompletion=complete.experiments,
        ),
    ],
    yes: options.Force = False,
    dry_run: options.DryRun = False,
) -> int:
    """Stop several experiments and everything they started; one that fails does not keep the others.

    Examples:
        symphony delete-batch 'sweep-*'
        symphony delete-batch rl numint -y
    """
    result = matching(names)
    if dry_run or not yes:
        if not dry_run:
            choose.require_terminal()
        for stack in result:
            print(screen.clean(f"  {stack.shown}  {_size(stack)}"))
    if dry_run:
        print(f"{count(len(result), 'experiment')} would be stopped.")
        return 0
    if not yes and not choose.confirmed(f"Stop {count(len(result), 'experiment')} and delete their logs?"):
        print("Nothing was changed.")
        return 1
    return 0 if _deleted(result) else 1


def _deleted(stacks: Sequence[Stack]) -> bool:
    """Whether all could be deleted. Interrupted: what is under way is stopped, the rest is left."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    stopped, left = threading.Event(), {stack.name: stack.shown for stack in stacks}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ends = {pool.submit(_take_down, stack, stopped): stack for stack in stacks}
        try:
            for end in as_completed(ends):
                if not isinstance(error := end.exception(), SymphonyError):
                    show_end(end.result())
                    del left[ends[end].name]
                else:
                    screen.show_error(f"{ends[end].shown}: {error.line}", error.details)
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            for end, stack in ends.items():
                if not end.cancelled() and end.exception() is None:
                    left.pop(stack.name, None)
            if not left:
                return True
            what = f"delete-batch was interrupted, {len(left)} of {count(len(stacks), 'experiment')} left"
            again = f"`symphony delete-batch {' '.join(sorted(left.values()))}` finishes it"
            raise Interrupted(what, remedy=again) from None
    return not left


def _take_down(stack: Stack, stopped: threading.Event) -> Deleted:
    *_, end = delete(stack, stopped)
    assert isinstance(end, Deleted)
    return end


def _size(stack: Stack) -> str:
    total = len(stack.recorded.processes) if stack.recorded else 0
    return count(total, "process", "processes")
