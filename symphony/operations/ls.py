"""Lists all experiments with their states, from the state store and from their backends."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from symphony.backends.observe import ProcessStatus
from symphony.engine.state import locks
from symphony.errors import SymphonyError
from symphony.operations import stacks, sweep
from symphony.operations.process import is_well
from symphony.plan.problems import count

# The states of a runner that starts no more trials.
_NOT_RUNNING = ("failed", "lost", "not in the state")


class Listed(msgspec.Struct, frozen=True):
    """A row: an experiment, a sweep or a cluster.

    Attributes:
        since: The time of its first start, in seconds since the epoch.
        hint: A command that helps, and its effect; the error if the state cannot be read.
        trouble: The reason why its backend does not answer.
        kind: "experiment" or "cluster".
    """

    name: str
    project: str
    backend: str
    ready: int
    total: int
    state: str
    since: float | None
    hint: str = ""
    trouble: str = ""
    kind: str = "experiment"


def ls() -> list[Listed]:
    """Return the rows of experiments, sweeps, clusters and unreadable stacks; ask each backend once."""
    # Read the locks before the states: the state of a first run appears when that run ends.
    busy = locks.stacks_in_use()
    all_stacks = stacks.every()
    # A stack with a damaged state is listed: it may have an experiment.
    known = [stack for stack in all_stacks if stack.recorded is not None or stack.trouble or stack.cluster]
    orphans = stacks.orphans(stack.name for stack in known)
    labels = stacks.labels(stack.name for stack in [*known, *orphans])
    statuses = stacks.statuses(known)
    rows = [
        Listed(labels[stack.name], stack.name.project, "", 0, 0, "unreadable", None, hint=stack.trouble)
        if stack.trouble
        else _experiment(labels[stack.name], stack, statuses[stack.name])
        if stack.recorded is not None
        else _cluster(labels[stack.name], stack)
        for stack in known
    ]
    rows += [_orphan(labels[stack.name], stack, stack.name in busy) for stack in orphans]
    return sorted(_folded(rows), key=lambda row: row.name)


def _folded(rows: list[Listed]) -> list[Listed]:
    """Return the rows with the runner and the trials of a sweep merged into a row."""
    for swept in sweep.every():
        names = {row.name: row.name.rpartition("/")[2] for row in rows if row.project == swept.project}
        trial_names = {swept.stack_of(trial).stack for trial in swept.trials}
        trials = [row for row in rows if names.get(row.name) in trial_names]
        runners = [row for row in rows if names.get(row.name) == swept.name]
        if trials or runners:
            rows = [row for row in rows if row not in trials and row not in runners]
            rows.append(_sweep(swept, runners, trials))
    return rows


def _sweep(swept: sweep.Sweep, runners: list[Listed], trials: list[Listed]) -> Listed:
    state, hint = swept.summary, ""
    if not swept.has_ended and (not runners or runners[0].state.startswith(_NOT_RUNNING)):
        why = f": {runners[0].state.partition(': ')[2].partition(': ')[0]}" if runners else ""
        state, hint = f"{state}; stopped{why}".rstrip(": "), f"symphony sweep {swept.name} continues it"
    elif any(trial.state == "failed" for trial in swept.trials):
        hint = f"symphony results {swept.name}"
    return Listed(
        swept.name,
        swept.project,
        swept.backend,
        sum(1 for trial in swept.trials if trial.state == "completed"),
        len(swept.trials),
        state,
        (runners or trials)[0].since,
        hint,
        "; ".join(row.trouble for row in trials if row.trouble),
    )


def _experiment(label: str, stack: stacks.Stack, statuses: Sequence[ProcessStatus] | SymphonyError) -> Listed:
    project, backend = stack.name.project, stack.backend or ""
    if isinstance(statuses, SymphonyError):
        total = len(stack.processes)
        return Listed(label, project, backend, 0, total, "unknown", _began(stack), trouble=statuses.line)
    state, hint = summary(label, statuses)
    if not stacks.is_here(stack):
        state, hint = f"on {stack.recorded.host if stack.recorded else '?'}", ""
    ready = sum(map(is_well, statuses))
    return Listed(label, project, backend, ready, len(statuses), state, _began(stack), hint)


def _cluster(label: str, stack: stacks.Stack) -> Listed:
    assert stack.cluster is not None
    pools, hint = stack.cluster.outputs.get("pools"), ""
    state = f"cluster in {stack.cluster.outputs.get('location')}, {count(len(pools or ()), 'pool')}"
    if pools is None or (stack.state is not None and stack.state.pending):
        state, hint = "cluster, incomplete", f"symphony up {label} finishes it"
    return Listed(label, stack.name.project, "gke", 0, 0, state, _began(stack), hint, kind="cluster")


def _orphan(label: str, stack: stacks.Stack, busy: bool) -> Listed:
    name, total = stack.name, len(stack.processes)
    state, hint = (
        "not in the state",
        f"symphony delete {label} ends it, symphony up {name.stack} takes it over",
    )
    if busy:
        state, hint = "being started", ""
    return Listed(label, name.project, stack.backend or "", total, total, state, None, hint)


def summary(name: str, statuses: Sequence[ProcessStatus]) -> tuple[str, str]:
    """Return the state of a whole experiment in a few words, and a helpful command."""
    by_state = defaultdict[str, list[ProcessStatus]](list)
    for status in statuses:
        by_state[status.state].append(status)
    if lost := by_state["lost"]:
        return _words("lost", lost, statuses), f"symphony up {name} restarts it"
    if failed := by_state["failed"]:
        return _words("failed", failed, statuses), f"symphony logs {name} {failed[0].path}"
    if blocked := by_state["blocked"]:
        return _words("blocked", blocked, statuses), f"symphony why {name} {blocked[0].path}"
    if waiting := by_state["waiting"]:
        return f"{len(waiting)} waiting{_reasons(waiting)}", ""
    for state in ("unknown", "stopped"):
        if group := by_state[state]:
            return _words(state, group, statuses), ""
    if by_state["running"]:
        return "running", ""
    return ("completed" if statuses else "empty"), ""


def _words(state: str, group: Sequence[ProcessStatus], statuses: Sequence[ProcessStatus]) -> str:
    names = group[0].path if len(group) == 1 else str(len(group))
    return (f"{names} {state}" if len(group) < len(statuses) else state) + _reasons(group)


def _reasons(group: Sequence[ProcessStatus]) -> str:
    """Return the distinct reasons of these processes; of more than two, the first and how many more."""
    reasons = list(dict.fromkeys(status.why for status in group if status.why))
    if not reasons:
        return ""
    if len(reasons) > 2:
        reasons = [reasons[0], f"{len(reasons) - 1} other reasons"]
    return f": {'; '.join(reasons)}"


def _began(stack: stacks.Stack) -> float | None:
    return min((resource.created for resource in stack.resources if resource.created), default=None)
