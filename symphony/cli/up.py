"""`symphony up`: plan, ask, run, watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from symphony.cli import choose, cluster_table, options, plan_table, screen
from symphony.cli.progress import Board, alike
from symphony.engine.errors import Interrupted
from symphony.errors import UserError
from symphony.operations import stack_target
from symphony.operations.cluster import ClusterEnded
from symphony.operations.plan import Planned, plan_of
from symphony.operations.process import in_order, state
from symphony.operations.program_output import ProgramOutput
from symphony.operations.up import Ended, UpEvent, Watched, up
from symphony.plan.names import listed
from symphony.plan.problems import count


def command(
    stack: options.Program = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat with each saved change of the code or the program.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Run an experiment: show the plan, ask, start what is new, restart what changed, stop what is gone.

    Examples:
        symphony up
        symphony up rl -y
        symphony up rl --dry-run
        symphony up 'sweep.*' -y
        symphony up rl --watch
    """
    if as_json and (watch or not (yes or dry_run)):
        problem = "--watch has no JSON" if watch else "--json does not ask"
        raise UserError(problem, remedy="Run `symphony up -y --json`")
    if stack is not None and (names := stack_target.select_all(stack)):
        if watch:
            raise UserError("--watch is for one experiment", remedy=f"Name one of: {listed(names)}")
        if not (yes or dry_run):
            print("\n".join(names))
            choose.confirm(f"Bring up these {count(len(names), 'experiment')}?")
        from symphony.cli.at_once import run_all

        return run_all("up", names, ["--dry-run" if dry_run else "--yes"], as_json=as_json)
    target, output = stack_target.select(stack), ProgramOutput()
    to = sys.stderr if as_json else sys.stdout
    if dry_run or not yes:
        output.to(lambda line: print(screen.of_program(line), file=to, flush=True))
        planned = plan_of(target, output)
        screen.show_json(planned.to_json()) if as_json else plan_table.show(planned)
        if dry_run:
            return 0
        if not planned.changes_nothing:
            choose.confirm("Proceed?")
    planned, code = _run(target, plan_table.show if yes else None, output, as_json=as_json)
    if watch and planned is not None:
        # Only --watch needs them.
        from symphony.cli import up_watch
        from symphony.operations import sources

        up_watch.watch(
            target.name,
            sources.of(target.workspace, planned),
            lambda show: _run(stack_target.select(stack), show, ProgramOutput())[0],
        )
    return code


def _run(
    target: stack_target.StackTarget,
    show: Callable[[Planned], None] | None,
    output: ProgramOutput,
    *,
    as_json: bool = False,
) -> tuple[Planned | None, int]:
    """Return the plan that was carried out, and the exit code."""
    planned: Planned | None = None
    with Board(quiet=as_json) as board:
        for event in interruptible(up(target, output=output.to(told_by(board, quiet=as_json))), target):
            board.show(event, show)
            match event:
                case Planned():
                    planned = event
                case Ended():
                    changes = [change.to_json() for change in planned.changes] if planned else []
                    facts = {"stack": event.stack, "changes": changes, **as_facts(event)}
                    return planned, show_json_end(event, facts) if as_json else show_end(event)
                case ClusterEnded():
                    screen.show_json(asdict(event)) if as_json else print(
                        screen.clean(cluster_table.ended(event))
                    )
                    return planned, 0
                case _:
                    pass
    return planned, 1


def told_by(board: Board, *, quiet: bool) -> Callable[[str], None]:
    """Return a function that shows a line of the program on the board, or on standard error."""
    if quiet:
        return lambda line: print(screen.of_program(line), file=sys.stderr, flush=True)
    return lambda line: board.say(screen.of_program(line))


def interruptible(events: Iterable[UpEvent], target: stack_target.StackTarget) -> Iterable[UpEvent]:
    """Yield the events; Ctrl-C while processes start on their own says what is not running yet.

    Raises:
        Interrupted: By Ctrl-C.
    """
    watched: Watched | None = None
    try:
        for event in events:
            watched = event if isinstance(event, Watched) else watched
            yield event
    except KeyboardInterrupt:
        if watched is None:
            raise
        left = sum(1 for status in watched.statuses if status.state not in ("running", "completed"))
        what = f"{target.name.stack}: all started; {left} not running yet"
        raise Interrupted(what, remedy=f"`symphony process {target.name.stack}` shows them") from None


def as_facts(ended: Ended) -> dict[str, Any]:
    """Return the JSON of an end."""
    return {"seconds": ended.seconds, "processes": [asdict(status) for status in ended.statuses]}


def show_json_end(ended: Ended, facts: dict[str, Any]) -> int:
    """Print the facts of an end, and return the exit code."""
    screen.show_json(facts)
    return 1 if ended.troubled else 0


def show_end(ended: Ended, text: str = "") -> int:
    """Print the end, or another text for it, below what does not run; return the exit code."""
    shown: Sequence[Any] = [status for status in ended.statuses if status in ended.troubled or status.why]
    shown = sorted(shown, key=lambda status: in_order(status.path))
    why = f"   symphony why {ended.stack} {shown[0].path}" if ended.common else ""
    for names, status in alike(shown):
        if not why:
            print(screen.clean(f"  {names}   {state(status)}   symphony why {ended.stack} {status.path}"))
        # A single last line is part of the state already.
        for line in status.words if len(status.words) > 1 else ():
            print(screen.clean(f"    | {line}"))
    # Processes that never ran have no logs.
    logs = f"   symphony logs {ended.stack} -f" if ended.has_begun else ""
    print(screen.clean(f"{text or ended}{why}{logs}"))
    return 1 if ended.troubled else 0
