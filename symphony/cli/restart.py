"""`symphony restart`: processes again, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from symphony.cli import choose, options, screen
from symphony.cli.progress import Board, names_of
from symphony.cli.up import show_end
from symphony.operations.program_output import ProgramOutput
from symphony.operations.restart import Restart, prepared, restart
from symphony.operations.up import Ended
from symphony.plan.problems import count


def command(words: options.Processes = None, yes: options.Yes = False) -> int:
    """Start processes of an experiment again, with what the program declares of them now.

    Their addresses stay, and so do all other processes. Those of a group that share a pod start together.

    Examples:
        symphony restart rl learner
        symphony restart rl 'worker-*'
        symphony restart rl -y
    """
    stack, given = choose.processes(words or ())
    what = prepared(stack, given)
    total = len(stack.recorded.processes if stack.recorded else ())
    many = count(len(what.paths), "process", "processes")
    if what.sharing:
        also = f"{names_of(what.sharing)} {'restarts' if len(what.sharing) == 1 else 'restart'} as well"
        print(screen.clean(f"{also}: in one pod with {names_of(what.named)}."))
    if (not given or what.sharing) and not yes:
        choose.require_terminal()
        if not choose.confirmed(f"Restart {many} of {stack.shown}?"):
            print("Nothing was changed.")
            return 1
    return _run(what, total)


def _run(what: Restart, total: int) -> int:
    output = ProgramOutput()
    with Board() as board:
        for event in restart(what, output.to(lambda line: board.say(screen.of_program(line)))):
            board.show(event, None)
            if isinstance(event, Ended):
                statuses = tuple(each for each in event.statuses if each.path in what.paths)
                running = sum(1 for each in statuses if each.state in ("running", "completed"))
                kept = f"; {total - len(statuses)} went on" if total > len(statuses) else ""
                text = f"{running} of {len(statuses)} running again, in {event.seconds:.1f} s{kept}."
                return show_end(replace(event, statuses=statuses), text)
    return 1
