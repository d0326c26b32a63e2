"""`symphony up`: plan, ask, run, watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from symphony.backends.observe import ProcessStatus
from symphony.cli import choose, cluster_table, options, plan_table, screen
from symphony.cli.plan import command as show_plan
from symphony.cli.progress import Board, alike
from symphony.engine.errors import Interrupted
from symphony.errors import UserError
from symphony.operations import stack_target
from symphony.operations.cluster import ClusterEnded
from symphony.operations.plan import Planned, plan
from symphony.operations.process import in_order, state
from symphony.operations.program_output import ProgramOutput
from symphony.operations.up import Ended, Watched, up
from symphony.plan.names import listed
from symphony.plan.problems import count


def command(
    stack: options.Program = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on with each saved change of the code or the program.")
    ] = False,
) -> int:
    """Run an experiment: show the plan, ask, start what is new, restart what changed, stop what is gone.

    Examples:
        symphony up rl
        symphony up rl.gke -y
        symphony up rl --dry-run
        symphony up 'sweep.*' -y
        symphony up rl --watch
    """
    if stack is not None and (names := stack_target.matching(stack)):
        if watch:
            raise UserError("--watch is for one experiment", remedy=f"Name one of: {listed(names)}")
        return _all(names, yes, dry_run)
    if dry_run:
        show_plan(stack)
        return 0
    target = stack_target.of(stack)
    if not yes and not _means_another(target):
        print("Nothing was changed.")
        return 1
    output = ProgramOutput()
    if not yes and not _agreed(stack, output.to(lambda line: screen.tell(screen.of_program(line)))):
        return 1
    planned, code = _run(target, plan_table.show if yes else None, output)
    if watch and planned is not None:
        # Only who watches needs it.
        from symphony.cli import up_watch
        from symphony.operations import sources

        up_watch.watch(
            target.name.stack,
            sources.of(target.workspace, planned),
            lambda show: _run(stack_target.of(stack), show, ProgramOutput())[0],
        )
    return code


def _all(names: Sequence[str], yes: bool, dry_run: bool) -> int:
    """Those of a pattern."""
    if not (yes or dry_run):
        choose.require_terminal()
        print("\n".join(names))
        if not choose.confirmed(f"Bring up these {count(len(names), 'experiment')}?"):
            print("Nothing was changed.")
            return 1
    from symphony.cli.up_all import up_all

    return up_all(names, dry_run)


def _run(
    target: stack_target.StackTarget, show: Callable[[Planned], None] | None, output: ProgramOutput
) -> tuple[Planned | None, int]:
    """The plan that was carried out, and the exit code."""
    planned: Planned | None = None
    watched: Watched | None = None
    with Board() as board:
        try:
            for event in up(target, output=output.to(lambda line: board.say(screen.of_program(line)))):
                board.show(event, show)
                match event:
                    case Planned():
                        planned = event
                    case Watched():
                        watched = event
                    case Ended():
                        return planned, show_end(event)
                    case ClusterEnded():
                        print(screen.clean(cluster_table.ended(event)))
                        return planned, 0
                    case _:
                        pass
        except KeyboardInterrupt:
            if watched is None:
                raise
            raise _left_alone(target.name.stack, watched.statuses) from None
    return planned, 1


def _means_another(target: stack_target.StackTarget) -> bool:
    """Whether a stack that nothing but this command names is one more experiment, or a name mistyped."""
    others = stack_target.second(target)
    if not others or not choose.is_terminal():
        return True
    name = target.name
    print(screen.clean(f"{name.project} has no experiment {name.stack} yet; it has {', '.join(others[:5])}."))
    return choose.confirmed(f"Start {name.stack} as another one?")


def _left_alone(stack: str, statuses: Sequence[ProcessStatus]) -> Interrupted:
    """Ctrl-C while nothing is left to do but to wait."""
    left = sum(1 for each in statuses if each.state not in ("running", "completed"))
    started = (
        "it is started and goes on" if len(statuses) == 1 else f"all {len(statuses)} are started and go on"
    )
    runs = "does" if left == 1 else "do"
    what = f"{stack}: {started}; {left} {runs} not run yet"
    return Interrupted(what, remedy=f"`symphony process {stack}` shows them")


def _agreed(stack: str | None, output: ProgramOutput) -> bool:
    """Whether a person said yes to the plan, or it changes nothing."""
    planned = plan(stack, output)
    plan_table.show(planned)
    if planned.changes_nothing:
        return True
    choose.require_terminal()
    if choose.confirmed("Go on?"):
        return True
    print("Nothing was changed.")
    return False


def show_end(ended: Ended, text: str = "") -> int:
    """Print how it ended, in other words where some are given, and what does not run; the exit code."""
    shown = [each for each in ended.statuses if each in ended.troubled or each.why]
    shown.sort(key=lambda each: in_order(each.path))
    why = f"   symphony why {ended.stack} {shown[0].path}" if ended.common else ""
    for names, status in alike(shown):
        if not why:
            print(screen.clean(f"  {names}   {state(status)}   symphony why {ended.stack} {status.path}"))
        # The last of its words stands in the line already.
        for line in status.words if len(status.words) > 1 else ():
            print(screen.clean(f"    | {line}"))
    # What waits or never ran has no logs.
    logs = f"   symphony logs {ended.stack} -f" if ended.has_begun else ""
    print(screen.clean(f"{text or ended}{why}{logs}"))
    return 1 if ended.troubled else 0
