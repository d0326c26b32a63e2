"""The experiments there are and how they are, read from state and from their backends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from symphony.backends import registry
from symphony.backends.observe import ProcessStatus
from symphony.engine.state import file_store, locks
from symphony.errors import SymphonyError
from symphony.operations import orphans, stacks
from symphony.operations.orphans import Orphan
from symphony.operations.process import is_well
from symphony.plan.problems import count


@dataclass(frozen=True)
class Listed:
    """One experiment; `since` is when it was first started, in seconds since the epoch.

    trouble: why its state is unknown: its backend does not answer. kind: `experiment` or `cluster`.
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ls() -> list[Listed]:
    """Every experiment that something is recorded of, with one look at each backend."""
    # Before the states: that of a first run has everything at once, when the run ends.
    busy = locks.at_work()
    every = stacks.every()
    # A damaged state may record anything.
    known = [stack.name for stack in every if stack.recorded is not None or stack.trouble or stack.cluster]
    lost = {
        name: orphan for name, orphan in orphans.orphans(known).items() if stacks.is_in_scope(orphan.backend)
    }
    labels = stacks.labels([*known, *lost])
    by_backend: dict[str, list[stacks.Stack]] = defaultdict(list)
    for stack in every:
        if stack.recorded is not None and stack.backend is not None:
            by_backend[stack.backend].append(stack)
    result: dict[str, Listed] = {}
    for backend, members in by_backend.items():
        recorded = [stack.recorded for stack in members if stack.recorded is not None]
        for stack, statuses in zip(members, registry.get(backend).observer.statuses(recorded), strict=True):
            label = labels[stack.name]
            if isinstance(statuses, SymphonyError):
                total = len(stack.recorded.processes) if stack.recorded else 0
                result[label] = Listed(
                    label, stack.name.project, backend, 0, total, "unknown", _began(stack), "", statuses.line
                )
            else:
                result[label] = _listed(label, stack, statuses)
    for stack in every:
        if stack.trouble:
            label = labels[stack.name]
            result[label] = Listed(label, stack.name.project, "", 0, 0, "unreadable", None, stack.trouble)
        elif stack.cluster is not None:
            result[labels[stack.name]] = _cluster(labels[stack.name], stack, stack.cluster)
    for name, orphan in lost.items():
        result[labels[name]] = _unrecorded(labels[name], name, orphan, name in busy)
    return [*(result[label] for label in sorted(result)), *map(_lost, orphans.lost())]


def _cluster(label: str, stack: stacks.Stack, cluster: file_store.Resource) -> Listed:
    pools, hint = cluster.outputs.get("pools"), ""
    state = f"cluster in {cluster.outputs.get('location')}, {count(len(pools or ()), 'pool')}"
    if pools is None or (stack.state is not None and stack.state.pending):
        state, hint = "cluster, half made", f"symphony up {label} finishes it"
    return Listed(label, stack.name.project, "gke", 0, 0, state, _began(stack), hint, kind="cluster")


def _lost(orphan: Orphan) -> Listed:
    whose, _, mark = orphan.owned.owner.partition("#")
    project, _, stack = whose.partition("/")
    hint, count = "symphony delete --orphans ends it", len(orphan.owned.paths)
    return Listed(f"{stack}#{mark}", project, orphan.backend, count, count, "folder removed", None, hint)


def _unrecorded(label: str, name: file_store.StackName, orphan: Orphan, busy: bool) -> Listed:
    state, hint = "in no state", f"symphony delete {label} ends it, symphony up {name.stack} takes it over"
    if busy:
        state, hint = "being started", ""
    count = len(orphan.owned.paths)
    return Listed(label, name.project, orphan.backend, count, count, state, None, hint)


def _listed(label: str, stack: stacks.Stack, statuses: Sequence[ProcessStatus]) -> Listed:
    state, hint = summary(stack.shown, statuses)
    if not stacks.is_here(stack):
        state, hint = f"on {stack.recorded.host if stack.recorded else '?'}", ""
    return Listed(
        name=label,
        project=stack.name.project,
        backend=stack.backend or "",
        ready=sum(map(is_well, statuses)),
        total=len(statuses),
        state=state,
        since=_began(stack),
        hint=hint,
    )


def summary(name: str, statuses: Sequence[ProcessStatus]) -> tuple[str, str]:
    """The state of a whole experiment in a few words, and what to do about it."""
    of = defaultdict[str, list[ProcessStatus]](list)
    for status in statuses:
        of[status.state].append(status)
    if of["lost"]:
        why = next((status.why for status in of["lost"] if status.why), "")
        return _words("lost", of["lost"], statuses, why), f"symphony up {name} restarts it"
    if of["failed"]:
        first = of["failed"][0]
        return _words("failed", of["failed"], statuses, first.why), f"symphony logs {name} {first.path}"
    if of["waiting"]:
        return f"{len(of['waiting'])} waiting: {of['waiting'][0].why}", ""
    for state in ("unknown", "stopped", "running"):
        if of[state]:
            return _words(state, of[state], statuses, of[state][0].why if state != "running" else ""), ""
    return ("completed" if statuses else "empty"), ""


def _words(state: str, these: Sequence[ProcessStatus], all_: Sequence[ProcessStatus], why: str) -> str:
    few = len(these) < len(all_) and state != "running"
    who = these[0].path if len(these) == 1 else str(len(these))
    return (f"{who} {state}" if few else state) + (f": {why}" if why else "")


def _began(stack: stacks.Stack) -> float | None:
    times = (
        [resource.created for resource in stack.state.resources if resource.created] if stack.state else []
    )
    return min(times) if times else None
