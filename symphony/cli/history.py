"""`symphony history`: lists the runs of an experiment."""

from datetime import datetime, timedelta
from functools import cache
from typing import Annotated

import msgspec
import typer

from symphony.cli import arguments, screen
from symphony.engine.state.file_store import StackName
from symphony.operations import runs, stacks

HEAD = ("run", "started", "by", "git", "changed", "ended", "not recorded")
# The maximum length of each change with its reason.
_LONGEST = 60


def command(
    name: arguments.Experiment = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="Maximum number of runs to show.")] = 20,
    as_json: arguments.AsJson = False,
) -> None:
    """List the runs of an experiment: each `up` or `restart` that changed something.

    `symphony logs NAME --run N` prints the logs of a run, `symphony diff NAME N M` compares two.

    Examples:
        symphony history rl
        symphony history rl -n 100 --json
    """
    experiment = _experiment(name)
    rows = runs.every(experiment, last)
    if rows and rows[-1].ended is None:
        rows[-1] = runs.with_current_states(stacks.read(experiment), rows[-1])
    if as_json:
        screen.show_json([{**msgspec.to_builtins(run), "seconds": run.seconds} for run in reversed(rows)])
    elif not rows:
        print(screen.clean(f"{experiment.stack} has no runs."))
    else:
        screen.show_table(HEAD, map(_cells, reversed(rows)), right=(0,))


def _experiment(name: str | None) -> StackName:
    """Return the experiment; given its full name, record the run of a plain `pulumi up` that started it."""
    stack = stacks.find_exact(name) if name else None
    if stack is None or stack.recorded is None:
        return runs.find(name)
    runs.adopt(stack)
    return stack.name


def _cells(run: runs.Run) -> tuple[object, ...]:
    lines = _grouped(run.changed)
    changed = "; ".join(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…" for line in lines)
    missing = screen.cut("; ".join(run.missing))
    git = str(run.git or "")
    return run.number, moment(run.started), run.user, git, screen.cut(changed), run.ending, missing


def _grouped(changed: list[str]) -> list[str]:
    """Return the lines with equal reasons merged: `4 processes: new`.

    A line without a reason, such as `config train.yaml changed`, stays as it is.
    """
    paths_by_why: dict[str, list[str]] = {}
    others: list[str] = []
    for line in changed:
        path, colon, why = line.partition(": ")
        if colon:
            paths_by_why.setdefault(why, []).append(path)
        else:
            others.append(line)
    merged = [
        f"{paths[0] if len(paths) == 1 else f'{len(paths)} processes'}: {why}"
        for why, paths in paths_by_why.items()
    ]
    return [*merged, *others]


def moment(when: datetime) -> str:
    """Return a time as `today 14:02`, `yesterday 18:40` or with the date."""
    local = when.astimezone()
    date, time = local.isoformat(" ", "minutes")[:16].split()
    return f"{_days().get(date, date)} {time}"


@cache
def _days() -> dict[str, str]:
    today = datetime.now().astimezone().date()
    return {str(today): "today", str(today - timedelta(days=1)): "yesterday"}
