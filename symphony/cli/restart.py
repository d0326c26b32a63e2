"""`symphony restart`: restarts processes and changes nothing else."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from symphony.backends.observe import ProcessStatus
from symphony.cli import arguments, screen
from symphony.cli.progress import Board, names_of
from symphony.cli.up import end_json, interruptible, output_writer, show_end
from symphony.operations.plan import Planned, ProgramOutput
from symphony.operations.up import Ended, Restart, prepare, restart
from symphony.plan.problems import count


def command(
    words: arguments.Processes = None, yes: arguments.Yes = False, as_json: arguments.AsJson = False
) -> int:
    """Restart processes of an experiment with their current declarations.

    Services keep their addresses if the ports are still free. Equal workers, processes in the same pod and
    those with depends_on(restart_with=True) restart as well; other processes keep running.

    Examples:
        symphony restart rl learner
        symphony restart rl 'worker-*'
        symphony restart rl -y
    """
    arguments.require_yes(as_json=as_json, yes=yes)
    stack, names = arguments.processes(words or ())
    wanted = prepare(stack, names)
    if wanted.workers and not as_json:
        also = f"{names_of(wanted.workers)} {'restarts' if len(wanted.workers) == 1 else 'restart'} as well"
        print(screen.clean(f"{also}: equal workers start together."))
    if wanted.sharing and not as_json:
        also = f"{names_of(wanted.sharing)} {'restarts' if len(wanted.sharing) == 1 else 'restart'} as well"
        print(screen.clean(f"{also}, in the same pod as {names_of(wanted.named)}."))
    if (not names or wanted.sharing) and not yes:
        arguments.confirm(
            f"Restart {count(len(wanted.paths), 'process', 'processes')} of {stack.display_name}?"
        )
    return _run(wanted, len(stack.processes), as_json=as_json)


def _run(wanted: Restart, total: int, *, as_json: bool) -> int:
    restarted = set(wanted.paths)
    with Board(quiet=as_json) as board:
        events = restart(wanted, ProgramOutput().to(output_writer(board, quiet=as_json)))
        for event in interruptible(events, wanted.selected):
            board.show(event, None)
            if isinstance(event, Planned):
                restarted |= {change.path for change in event.changes if change.follows}
            elif isinstance(event, Ended):
                statuses = tuple(status for status in event.statuses if status.path in restarted)
                ended = replace(event, statuses=statuses)
                if as_json:
                    screen.show_json({"stack": ended.stack, **end_json(ended)})
                else:
                    others = total - len(restarted)
                    unchanged = f"; {others} unchanged" if others else ""
                    # Processes that kept running may use the old address of a service that moved.
                    affected = (status for status in event.statuses if status.ready and status.why)
                    ended = replace(ended, statuses=tuple(dict.fromkeys((*statuses, *affected))))
                    show_end(ended, f"{_counts(statuses)} in {event.seconds:.1f} s{unchanged}.")
                return 1 if ended.troubled else 0
    return 1


def _counts(statuses: Sequence[ProcessStatus]) -> str:
    """Return the number of processes in each state.

    >>> _counts([ProcessStatus(path, state, False) for path, state in [("a", "running"), ("b", "waiting")]])
    '1 of 2 running again, 1 waiting'
    """
    counts = Counter(status.state for status in statuses)
    if counts["completed"] == len(statuses):
        return f"{len(statuses)} of {len(statuses)} completed again"
    running = counts.pop("running", 0)
    others = "".join(f", {number} {state}" for state, number in sorted(counts.items()))
    return f"{running} of {len(statuses)} running again{others}"
