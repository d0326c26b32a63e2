"""`symphony delete`: stop an experiment and delete everything it started."""

from typing import Annotated

import typer
from rich.filesize import decimal

from symphony.cli import arguments, screen
from symphony.cli.progress import Board, lasted
from symphony.errors import UserError
from symphony.operations import runs, sweep
from symphony.operations.cluster import refuse_used
from symphony.operations.delete import Deleted, delete
from symphony.operations.stacks import Stack, find_exact, find_orphan
from symphony.operations.up import Progress
from symphony.plan.problems import count

Forget = Annotated[bool, typer.Option("--forget", help="Also remove the records and logs of its runs.")]


def command(
    name: arguments.Experiment = None,
    yes: arguments.Force = False,
    dry_run: arguments.DryRun = False,
    forget: Forget = False,
    as_json: arguments.AsJson = False,
) -> int:
    """Stop an experiment and delete everything it started. Its runs are kept, with their logs.

    Examples:
        symphony delete rl
        symphony delete rl -y
        symphony delete rl --forget
    """
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    if forget and not _is_up(name):
        return _forget(name, yes=yes, dry_run=dry_run, as_json=as_json)
    # An orphan runs here without a state, because its first `up` was killed.
    stack = find_orphan(name) or arguments.experiment(name)
    if yes and name is not None and name not in stack.name.spellings:
        raise UserError(
            f"no experiment is called {name}, and -y needs the full name",
            remedy=f"To delete {stack.display_name}, run `symphony delete {stack.display_name} -y`",
        )
    if stack.cluster is not None:
        refuse_used(stack)
    and_runs = " and remove its runs with their logs" if forget else ""
    if dry_run:
        what = "delete the cluster" if stack.cluster else f"stop {size(stack)}{and_runs}"
        if as_json:
            screen.show_json({"stack": stack.display_name, "would": what})
        else:
            print(screen.clean(f"{stack.display_name}: would {what}."))
        return 0
    if not yes:
        arguments.confirm(
            f"Delete the cluster {stack.display_name} with its node pools and images?"
            if stack.cluster
            else f"Delete {stack.display_name}: stop {size(stack)}{and_runs}?"
        )
    with Board(list(stack.processes), quiet=as_json) as board:
        for event in delete(stack, forget=forget):
            match event:
                case Progress():
                    board.update(event)
                case Deleted():
                    board.end()
                    screen.show_json(event) if as_json else print(summary(event))
    return 0


def _is_up(name: str | None) -> bool:
    """Return False if the experiment or cluster exists but is not up; the deletion reports an unknown one."""
    stack = find_exact(name) if name else None
    if name is None or stack is None or find_orphan(name) is not None:
        return True
    return stack.recorded is not None or stack.cluster is not None


def _forget(name: str | None, *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Remove the runs of an experiment that is not up, or of all trials of a sweep."""
    known = runs.find(name)
    swept = sweep.read(known)
    names = [known, *(swept.stack_of(trial) for trial in swept.trials)] if swept else [known]
    number, size = sum(len(runs.numbers(name)) for name in names), runs.size(map(runs.folder_of, names))
    kept = f"{count(number, 'run')} of {known.stack}, {decimal(size)}"
    if not (yes or dry_run):
        arguments.confirm(f"Remove {kept}?")
    if not dry_run:
        sweep.forget(swept) if swept else runs.forget(known)
    if as_json:
        screen.show_json({"stack": known.stack, "runs": number, "bytes": size, "removed": not dry_run})
    else:
        print(screen.clean(f"{known.stack}: would remove {kept}." if dry_run else f"Removed {kept}."))
    return 0


def size(stack: Stack) -> str:
    """Return `3 processes`; for a sweep, the processes of its trials."""
    swept = sweep.read(stack.name)
    parts = [stack] if swept is None else sweep.live_trials(swept)
    return count(sum(len(part.processes) for part in parts), "process", "processes")


def summary(deleted: Deleted) -> str:
    """Return the line printed at the end of a deletion."""
    took = f" in {lasted(deleted.seconds)}" if lasted(deleted.seconds) else ""
    if deleted.cluster:
        text = f"Deleted {deleted.stack}: the cluster {deleted.cluster} and its node pools{took}."
        return screen.clean(text)
    orphans = f" and {deleted.orphans} that no state recorded" if deleted.orphans else ""
    stopped = count(deleted.processes, "process", "processes")
    kept = f" {count(deleted.kept, 'run')} kept, {decimal(deleted.kept_bytes)}." if deleted.kept else ""
    return screen.clean(f"Deleted {deleted.stack}: stopped {stopped}{orphans}{took}.{kept}")
