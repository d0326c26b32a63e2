"""Deletes an experiment with everything it started."""

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
import psutil
from msgspec.structs import replace

from symphony.backends import registry, settings_reader
from symphony.backends.observe import LocalObserver, ProcessStatus, Recorded, RemoteObserver
from symphony.engine import errors, workspace
from symphony.engine.run.events import Failed, Outcome, Started
from symphony.engine.run.run import Run
from symphony.engine.state import file_store, locks, store
from symphony.errors import SymphonyError
from symphony.operations import cluster, runs, selected_stack, stacks, sweep
from symphony.operations.up import Progress, progress_of
from symphony.plan.names import is_name, listed, physical_name
from symphony.plan.problems import count

# Seconds between two looks at the processes.
_PERIOD = 0.5
# Seconds for an interrupted engine to complete its operations.
_PATIENCE = 60.0
# Seconds after SIGTERM from which a process is reported as still running.
_SLOW = 2.0


class Deleted(msgspec.Struct, frozen=True):
    """The end of a deletion.

    Attributes:
        processes: The number of processes that the state recorded, or that still ran when the deletion began.
        orphans: The number of further processes, which no state recorded.
        cluster: The name of the cluster, if the stack made one.
        kept: The number of runs that are kept, with their records and logs.
    """

    stack: str
    processes: int
    orphans: int
    seconds: float
    cluster: str = ""
    kept: int = 0
    kept_bytes: int = 0


def delete(stack: stacks.Stack, *, forget: bool = False) -> Iterator[Progress | Deleted]:
    """Delete everything that a stack and its interrupted runs created; interrupt a running `up`.

    With `forget`, remove its runs as well, with their records and logs. Yield the progress of each process,
    then the end.

    Raises:
        UserError: The experiment runs on another machine, or experiments use the cluster that the stack made.
        Interrupted: The deletion was interrupted; the error names the processes that are left.
    """
    swept = sweep.read(stack.name)
    if swept is None:
        yield from _delete_one(stack, workspace.for_stack(stack.name), forget=forget)
    else:
        yield from _delete_sweep(stack, swept, forget=forget)


def _delete_sweep(stack: stacks.Stack, swept: sweep.Sweep, *, forget: bool) -> Iterator[Progress | Deleted]:
    # The runner ends first, so that it starts no more trials.
    events = _delete_one(stack, workspace.private_workspace(swept.project, swept.name), forget=forget)
    deleted = [replace(event, processes=0) for event in events if isinstance(event, Deleted)]
    for trial in sweep.live_trials(swept):
        for event in _delete_one(trial, sweep.frozen_project(swept), forget=forget):
            if isinstance(event, Deleted):
                deleted.append(event)
            else:
                yield replace(event, path=f"{trial.display_name} {event.path}")
    if forget:
        sweep.forget(swept)
    else:
        sweep.set_stopped(stack.name)
    names = [swept.stack_of(trial) for trial in swept.trials]
    yield Deleted(
        stack.display_name,
        sum(event.processes for event in deleted),
        sum(event.orphans for event in deleted),
        sum(event.seconds for event in deleted),
        "",
        sum(len(runs.numbers(name)) for name in names),
        runs.size(map(runs.folder_of, names)),
    )


def _delete_one(
    stack: stacks.Stack, project: workspace.Workspace, *, forget: bool
) -> Iterator[Progress | Deleted]:
    while True:
        if _interrupt_runs(stack.name):
            stack = stacks.read(stack.name)
        try:
            yield from _delete(stack, project, forget=forget)
        except SymphonyError as error:
            # An `up` or a `restart` may have taken the lock of the stack, and may have ended by now.
            is_free = isinstance(error, locks.StackLocked) and not locks.read(
                stack.name.project, stack.name.stack
            )
            if not (_interrupt_runs(stack.name) or is_free):
                raise
            stack = stacks.read(stack.name)
        else:
            return


def _delete(
    stack: stacks.Stack, project: workspace.Workspace, *, forget: bool
) -> Iterator[Progress | Deleted]:
    stacks.ensure_same_location(stack)
    # The engine would refuse it only after the end of the other processes.
    if protected := sorted({resource.name for resource in stack.resources if resource.protect}):
        raise errors.protected_error(protected)
    # An orphan: its first `up` was killed, and no state records its processes.
    if stack.state is None and stack.recorded is not None:
        began = time.monotonic()
        if not forget:
            runs.keep_last_logs(stacks.read(stack.name))
        orphans = _delete_orphans(stack, project)
        kept = _settle(stack, (), forget=forget)
        yield Deleted(stack.display_name, orphans, 0, time.monotonic() - began, "", *kept)
        return
    observer = stack.observer() if stack.recorded is not None else None
    if stack.recorded is not None and isinstance(observer, RemoteObserver):
        observer.ensure_reachable(stack.recorded)
    selected = selected_stack.SelectedStack(stack.name, project)
    if stack.cluster is not None:
        cluster.refuse_used(stack)
        cluster.resume(selected)
        fetches = True
    elif stack.backend is None:
        fetches = selected_stack.fetches_plugins(selected)
    else:
        fetches = bool(registry.get(stack.backend).plugins)
    paths = sorted({*stack.processes, *_live_processes(stack)})
    _free_disk(stack)
    last_seen = () if forget else runs.keep_last_logs(stack)
    with Run("destroy", project, stack.name.stack, fetch_plugins=fetches) as run:
        stopping: _Stopping | None = None
        has_begun = False
        for event in run:
            if isinstance(event, Started) and not event.preview and not has_begun:
                # Only now does the engine hold the lock of the stack.
                has_begun = True
                if stack.recorded is not None and isinstance(observer, RemoteObserver):
                    observer.terminate_early(stack.recorded)
                if stack.recorded is not None and stack.on().local:
                    stopping = _Stopping(stack, paths)
            # The engine reports the end of a process when it closes its session, before the process ends.
            if (stopping is None or isinstance(event, Failed)) and (progress := progress_of(event)):
                yield replace(progress, state="stopping") if progress.state == "working" else progress
            if stopping is not None:
                yield from stopping.look()
    _check(run.outcome, stack, paths)
    if stopping is not None:
        yield from stopping.end()
    orphans = _delete_orphans(stack, project) if stack.cluster is None else 0
    stacks.forget_current(stack.name)
    store.purge(stack.name)
    name = stack.cluster.name if stack.cluster else ""
    kept = _settle(stack, last_seen, forget=forget)
    yield Deleted(stack.display_name, len(paths), orphans, run.outcome.seconds, name, *kept)


def _settle(stack: stacks.Stack, statuses: Sequence[ProcessStatus], *, forget: bool) -> tuple[int, int]:
    """Record the end of the last run, or remove all runs; return the number of kept runs and their size."""
    if forget:
        runs.forget(stack.name)
    else:
        runs.end_last(stack.name, statuses, "deleted")
    return len(runs.numbers(stack.name)), runs.size([runs.folder_of(stack.name)])


def _interrupt_runs(name: file_store.StackName) -> bool:
    """Interrupt local runs of `up` and `restart` of a stack, by SIGTERM; return whether any ran."""
    interrupted = False
    for lock in locks.read(name.project, name.stack):
        command = locks.command_of(lock)
        with suppress(psutil.Error, OSError):
            # Do not interrupt another deletion.
            if command is None or "destroy" in psutil.Process(lock.pid).cmdline():
                continue
            interrupted = True
            os.kill(command, signal.SIGTERM)
            deadline = time.monotonic() + _PATIENCE
            while lock.file.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
    return interrupted


class _Stopping:
    """Reports the ends of local processes during a deletion."""

    def __init__(self, stack: stacks.Stack, paths: Sequence[str]) -> None:
        self._stack = stack
        # The seconds after which SIGKILL follows SIGTERM, by path.
        self._graces = {path: float(stack.processes.get(path, {}).get("grace") or 0) for path in paths}
        self._began = self._looked = time.monotonic()

    def look(self) -> Iterator[Progress]:
        """Yield the processes that have ended, and all that still end, at most twice a second."""
        now = time.monotonic()
        if now - self._looked >= _PERIOD and self._graces:
            self._looked = now
            alive = _live_processes(self._stack)
            yield from self._report_ended([path for path in self._graces if path not in alive])
            yield from (self._stopping(path, grace) for path, grace in self._graces.items())

    def end(self) -> Iterator[Progress]:
        """Yield the end of all processes: the deletion is complete."""
        yield from self._report_ended(list(self._graces))

    def _report_ended(self, paths: Iterable[str]) -> Iterator[Progress]:
        seconds = time.monotonic() - self._began
        for path in paths:
            grace = self._graces.pop(path)
            note = f"killed: SIGTERM did not end it in {grace:g} s" if grace and seconds >= grace else ""
            yield Progress(path, "stopped", seconds, note)

    def _stopping(self, path: str, grace: float) -> Progress:
        seconds = time.monotonic() - self._began
        kill = f"; SIGKILL after {grace:g} s" if grace else ""
        note = f"still runs after SIGTERM{kill}" if seconds >= _SLOW else ""
        return Progress(path, "stopping", seconds, note)


def _free_disk(stack: stacks.Stack) -> None:
    """If the disk is full, end the processes and remove their logs first, so that the engine can start."""
    if stack.recorded and stack.on().local and file_store.is_full():
        stack.observer().delete_owned(stack.owner, stack.recorded.physical_name, stack.recorded)
        # Runs have hard links to the logs.
        runs.forget(stack.name)


def _check(outcome: Outcome, stack: stacks.Stack, paths: Collection[str]) -> None:
    """Raise the error of a failed or interrupted deletion, naming the processes that are left."""
    if outcome.result == "interrupted" and (left := _left(stack, paths)) is not None:
        raise errors.Interrupted(
            f"delete of {stack.display_name} was interrupted, {left}",
            remedy=f"Run `symphony delete {stack.display_name}` to finish",
        )
    try:
        errors.check(outcome)
    except SymphonyError as error:
        observer = stack.observer() if stack.recorded is not None else None
        if stack.recorded is not None and isinstance(observer, RemoteObserver):
            blockers = observer.deletion_blockers(stack.recorded)
            error.what = "; ".join(filter(None, (error.what, blockers)))
        raise


def _left(stack: stacks.Stack, paths: Collection[str]) -> str | None:
    """Return which processes still run, in words; None if the backend does not answer."""
    if stack.recorded is None:
        return None
    try:
        statuses = stack.statuses()
        # The engine forgets processes when it closes their session, although they may take longer to end.
        live = _live_processes(stack)
    except SymphonyError:
        return None
    if isinstance(statuses, SymphonyError):
        return None
    alive = {status.path for status in statuses if status.state not in ("lost", "completed", "failed")}
    left = [path for path in paths if path in alive or path in live]
    if not left:
        return "all processes have ended, but the experiment is still recorded"
    return f"{len(left)} of {count(len(paths), 'process', 'processes')} remain: {listed(left, 5)}"


def _live_processes(stack: stacks.Stack) -> list[str]:
    """Return the stack's processes, found by marker, including processes that the state has lost."""
    observer = stack.observer() if stack.recorded is not None else None
    if not isinstance(observer, LocalObserver):
        return []
    return [path for owned in observer.list_owned() if owned.owner == stack.owner for path in owned.paths]


def _delete_orphans(stack: stacks.Stack, project: workspace.Workspace) -> int:
    """Delete unrecorded processes of a killed `up`, found by marker; return their number."""
    if stack.backend is not None and stack.recorded is not None:
        return stack.observer().delete_owned(stack.owner, stack.recorded.physical_name, stack.recorded)
    # The state does not record the killed run; its settings name the backend.
    config = workspace.stack_config(project, stack.name.stack)
    try:
        config = cluster.with_kubeconfig(config, project)
    except cluster.ClusterNotUp:
        return 0
    settings = settings_reader.read_settings(config)
    backend = registry.get(settings.backend)
    name = settings.namespace or physical_name(stack.name.stack, label=backend.names_are_dns_labels)
    if not is_name(name):
        return 0
    observer = backend.observer
    is_remote = isinstance(observer, RemoteObserver)
    connection = observer.connection_settings(config, project.folder) if is_remote else {}
    unrecorded = Recorded(stack.owner, name, {}, connection=connection)
    return observer.delete_owned(stack.owner, name, unrecorded)
