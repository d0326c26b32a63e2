"""Takes an experiment down, whole."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from symphony.backends import registry, settings_reader
from symphony.backends.observe import Recorded
from symphony.content import digests
from symphony.engine import errors, workspace
from symphony.engine.run.events import Failed, Finished, Started
from symphony.engine.run.outcome import Outcome
from symphony.engine.run.run import Run
from symphony.engine.state import file_store, prune
from symphony.errors import SymphonyError, UserError
from symphony.operations import cluster, image_changes, stack_target, stacks, switch
from symphony.operations.stopping import Stopping
from symphony.operations.up import Progress, cluster_progress, path_of
from symphony.plan.names import is_name, launched_name, listed, shown
from symphony.plan.problems import count


@dataclass(frozen=True)
class Deleted:
    """How a deletion ended: what was recorded, and what no state knew of; of a cluster its name."""

    stack: str
    processes: int
    strays: int
    seconds: float
    cluster: str = ""


def delete(stack: stacks.Stack, stopped: threading.Event | None = None) -> Iterator[Progress | Deleted]:
    """Destroy everything the stack made, and what an interrupted run left; yields progress, then the end.

    stopped: interrupts it when it is set, for who runs it in a thread, where no signal comes.
    """
    stacks.ensure_same_location(stack)
    place = workspace.for_stack(stack.name)
    if stack.state is None and stack.recorded is not None:
        yield _ended_without_state(stack, place)
        return
    if stack.recorded is not None:
        stack.observer().ensure_reachable(stack.recorded)
    fetches = (
        stack_target.fetches_plugins(stack_target.StackTarget(stack.name, place))
        if stack.backend is None
        else bool(registry.get(stack.backend).plugins)
    )
    if stack.cluster is not None:
        yield from _cluster_deleted(stack, place, stopped)
        return
    paths = sorted({*(stack.recorded.processes if stack.recorded else ()), *_live_processes(stack)})
    _make_room(stack)
    with Run("destroy", place, stack.name.stack, fetch_plugins=fetches, stopped=stopped) as run:
        stopping: Stopping | None = None
        has_begun = False
        for event in run:
            if isinstance(event, Started) and not event.preview and not has_begun:
                # Not before the engine has the lock of the stack and has begun.
                has_begun = True
                _terminate_early(stack)
                stopping = _stopping(stack, paths)
            # The engine forgets what ends with its session before that has ended.
            message = Failed if stopping is not None else (Started, Finished, Failed)
            if isinstance(event, message) and (path := path_of(event.step)):
                yield _progress(event, path)
            if stopping is not None:
                yield from stopping.look()
    _check(run.outcome, stack, paths)
    if stopping is not None:
        yield from stopping.end()
    strays = _delete_orphans(stack, place)
    switch.forget(stack.name)
    prune.purge(stack.name)
    _forget_files(stack)
    yield Deleted(
        stack=stack.shown,
        processes=len(paths),
        strays=strays,
        seconds=run.outcome.seconds,
    )


def _cluster_deleted(
    stack: stacks.Stack, place: workspace.Workspace, stopped: threading.Event | None
) -> Iterator[Progress | Deleted]:
    cluster.refuse_used(stack)
    name = stack.cluster.name if stack.cluster else ""
    cluster.resume(stack_target.StackTarget(stack.name, place))
    with Run("destroy", place, stack.name.stack, fetch_plugins=True, stopped=stopped) as run:
        for event in run:
            if (progress := cluster_progress(event)) is not None:
                yield progress
    errors.check(run.outcome)
    prune.purge(stack.name)
    yield Deleted(stack.shown, 0, 0, run.outcome.seconds, cluster=name)


def matching(given: Sequence[str]) -> list[stacks.Stack]:
    """Return the experiments of full names, shell patterns and /regular expressions/, each once.

    Inside a project, a pattern stands for experiments of that project, unless it has one for the project as
    well: `other/sweep-*`.

    Raises:
        UserError: A name or a pattern matches nothing, or an expression is none.
    """
    every = {stack.name: stack for stack in stacks.every() if stack.recorded is not None or stack.trouble}
    project = stacks.current_project()
    labels = stacks.labels(every)
    result: dict[file_store.StackName, stacks.Stack] = {}
    for pattern in given:
        names = [name for name in every if _is_meant(name, labels[name], pattern, project)]
        if not names:
            known = listed(sorted(labels.values())) or "none"
            raise UserError(f"no experiment is named {shown(pattern)}", remedy=f"There are: {known}")
        result.update((name, every[name]) for name in names)
    return list(result.values())


def _is_meant(name: file_store.StackName, label: str, pattern: str, project: str | None) -> bool:
    full = f"{name.project}/{name.stack}"
    if pattern in (label, full):
        return True
    if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
        return project in (None, name.project) and _has(name.stack, pattern[1:-1])
    if "/" in pattern:
        return fnmatchcase(full, pattern)
    return project in (None, name.project) and fnmatchcase(name.stack, pattern)


def _has(name: str, expression: str) -> bool:
    try:
        return re.search(expression, name) is not None
    except re.error as error:
        raise UserError(f"{shown(expression)} is not a regular expression: {error}") from None


def _ended_without_state(stack: stacks.Stack, place: workspace.Workspace) -> Deleted:
    """The engine knows nothing of it: what bears its mark ends, and nothing else."""
    began = time.monotonic()
    ended = _delete_orphans(stack, place)
    return Deleted(stack.shown, ended, 0, time.monotonic() - began)


def _progress(event: Started | Finished | Failed, path: str) -> Progress:
    if isinstance(event, Started):
        return Progress(path, "stopping")
    return Progress(path, "stopped" if isinstance(event, Finished) else "failed", event.seconds)


def _stopping(stack: stacks.Stack, paths: Sequence[str]) -> Stopping | None:
    """The look at what still runs, where that is on this machine."""
    if stack.backend is None or stack.recorded is None or not registry.get(stack.backend).local:
        return None
    facts = stack.recorded.processes
    graces = {path: float(facts.get(path, {}).get("grace") or 0) for path in paths}
    return Stopping(graces, lambda: _live_processes(stack))


def _make_room(stack: stacks.Stack) -> None:
    """On a full disk the engine cannot even begin: what runs here ends before, and its logs go."""
    if stack.backend and registry.get(stack.backend).local and stack.recorded and file_store.is_full():
        stack.observer().delete_orphans(stack.owner, stack.recorded.launched_as, stack.recorded)


def _check(outcome: Outcome, stack: stacks.Stack, paths: Collection[str]) -> None:
    """Raise the one line that says why the run did not do its work; of a stopped one, what is left."""
    if outcome.result == "interrupted" and (left := _left(stack, paths)) is not None:
        raise errors.Interrupted(
            f"delete of {stack.shown} was interrupted, {left}",
            remedy=f"`symphony delete {stack.shown}` finishes it",
        )
    try:
        errors.check(outcome)
    except SymphonyError as error:
        if stack.recorded is not None and (waits_for := stack.observer().deletion_blockers(stack.recorded)):
            error.what = f"{error.what}; {waits_for}"
        raise


def _left(stack: stacks.Stack, paths: Collection[str]) -> str | None:
    """Which of them still live, in words; None when that cannot be told."""
    if stack.recorded is None:
        return None
    try:
        (statuses,) = stack.observer().statuses([stack.recorded])
        # The engine forgets processes as soon as it ends their session, which then may take its time.
        live = _live_processes(stack)
    except SymphonyError:
        return None
    if isinstance(statuses, SymphonyError):
        return None
    alive = {status.path for status in statuses if status.state not in ("lost", "completed", "failed")}
    left = [path for path in paths if path in alive or path in live]
    if not left:
        return "no process of it runs, its record is left"
    return f"{len(left)} of {count(len(paths), 'process', 'processes')} left: {listed(left, 5)}"


def _live_processes(stack: stacks.Stack) -> list[str]:
    """The processes that bear its mark, also those that an interrupted deletion has made the state forget."""
    if stack.recorded is None:
        return []
    return [
        path for each in stack.observer().list_owned() if each.owner == stack.owner for path in each.paths
    ]


def _terminate_early(stack: stacks.Stack) -> None:
    if stack.recorded is not None:
        stack.observer().terminate_early(stack.recorded)


def _forget_files(stack: stacks.Stack) -> None:
    """What is known of the files of its code and its images."""
    digests.forget("code", Path(stacks.folder(stack), stack.name.stack))
    for each in stack.state.resources if stack.state else ():
        if each.type == image_changes.TYPE:
            digests.forget("context", Path(str(each.inputs["context"])))


def _delete_orphans(stack: stacks.Stack, place: workspace.Workspace) -> int:
    """What a killed `up` started is not in the state: it is found by its mark."""
    if stack.backend is not None and stack.recorded is not None:
        return stack.observer().delete_orphans(stack.owner, stack.recorded.launched_as, stack.recorded)
    # The state may have nothing yet of what the settings say and the killed run began.
    config = workspace.stack_config(place, stack.name.stack)
    try:
        config = cluster.with_kubeconfig(config, place)
    except UserError:
        # On a cluster that is gone nothing is left.
        return 0
    settings = settings_reader.read(config)
    row = registry.get(settings.backend)
    name = settings.namespace or launched_name(stack.name.stack, label=row.labels)
    if not is_name(name):
        return 0
    observer = row.observer
    unrecorded = Recorded(
        stack.owner, name, {}, connection=observer.connection_settings(config, place.folder)
    )
    return observer.delete_orphans(stack.owner, name, unrecorded)
