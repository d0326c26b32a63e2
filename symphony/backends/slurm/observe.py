"""The Slurm backend's `observe`: the status of processes, from the experiment's folder and the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.backends import following
from symphony.backends.observe import (
    LIMIT,
    PATIENCE,
    Link,
    ProcessStatus,
    Recorded,
    Resource,
    Usage,
    not_created,
)
from symphony.content.code_files import VARIABLE
from symphony.errors import SymphonyError
from symphony_slurm import inputs
from symphony_slurm.commands import Job
from symphony_slurm.folder import Folder, Record, folder_of
from symphony_slurm.observe import (
    IN_QUEUE,
    NO_ROOM,
    Condition,
    Queue,
    condition,
    end_reason,
    in_queue,
    last_end,
)

ALLOCATION_TYPE = "pulumi-python:dynamic/symphony_slurm:Allocation"
STEP_TYPE = "pulumi-python:dynamic/symphony_slurm:Step"
_LINES = 5
_WIDEST = 120
_NO_RECORD = Record(path="", attempt=0, job=0, state="starting")


def recorded(owner: str, resources: Sequence[Resource]) -> Recorded | None:
    """Return the experiment that the state records on Slurm; None if it has no allocation and no step."""
    folder, steps, probed = "", dict[str, Mapping[str, Any]](), set[str]()
    for resource in resources:
        if resource.type == ALLOCATION_TYPE:
            allocation = {**resource.inputs, **resource.outputs}
            folder = str(allocation["place"])
            members = inputs.allocation_inputs(allocation).experiment.supervision.members
            probed = {path for path, member in members.items() if member.readiness is not None}
        elif resource.type == STEP_TYPE:
            step = {**resource.inputs, **resource.outputs}
            folder = folder or str(step["place"])
            steps[str(step["path"])] = {**step, "fingerprint": inputs.fingerprint(step)}
    steps = {path: {**step, "is_probed": path in probed} for path, step in steps.items()}
    if not folder:
        return None
    return Recorded(
        owner,
        Path(folder).name.rpartition("-")[0],
        steps,
        connection={"folder": folder},
        not_created=not_created(resources, steps),
    )


def statuses(recorded: Sequence[Recorded]) -> list[Sequence[ProcessStatus] | SymphonyError]:
    """Return the statuses of the processes of several experiments; every queue is read once."""
    queue = Queue()
    return [_statuses(experiment, queue) for experiment in recorded]


def addresses(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """Return service -> its host and port, for the services that have a port by now."""
    known = _folder(recorded).addresses()
    return {name: {"host": address.host, "port": address.port} for name, address in known.items()}


def restart_reasons(recorded: Recorded) -> dict[str, str]:
    """Return path -> why the next `up` restarts a process whose settings did not change."""
    job = Queue().job(_folder(recorded))
    conditions = {path: _condition(recorded, path, job) for path in recorded.processes}
    return {path: condition.reason for path, condition in conditions.items() if not condition.is_good}


def watch(
    recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses at once and after every change, until waiting longer would not help.

    It waits for a job in the queue for `patience` seconds, and for `limit` seconds in all.
    """

    def queues(now: Sequence[ProcessStatus]) -> bool:
        return any(status.why.startswith((IN_QUEUE, NO_ROOM)) for status in now)

    def starts(now: Sequence[ProcessStatus]) -> bool:
        return not queues(now) and any(s.state == "waiting" and not s.waits_for for s in now)

    return following.watch(recorded, statuses, patience, limit, starts=starts, queues=queues)


logs = following.logs


def why(recorded: Recorded, path: str, name: str) -> Sequence[Link]:
    """Return the steps of a process to its state, up to the one where it stopped or waits."""
    process = recorded.processes.get(path)
    return following.never_started(name) if process is None else list(_chain(recorded, process, name))


def usage(recorded: Recorded) -> Mapping[str, Usage]:
    """Return path -> the CPU and memory in the last report of the job's supervisor, one each 10 s."""
    return {path: Usage(cpu=used.cpu, memory=used.memory) for path, used in _folder(recorded).usage().items()}


def ensure_same_location(
    recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
) -> Recorded:
    """Return the record unchanged: any machine that sees the shared folder will do."""
    return recorded


def delete_owned(owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
    """End the experiment's jobs, recorded or not, and remove its folder; return how many processes ran."""
    from symphony_slurm import allocations

    nowhere: Mapping[str, str] = {}
    connection = recorded.connection if recorded is not None else nowhere
    if place := connection.get("folder"):
        folder = Folder(place)
    else:
        folder = folder_of(connection.get("shared") or paths.home() / "slurm", physical_name, owner)
    experiment = folder.experiment()
    if experiment is None or experiment.owner != owner:
        return 0
    records = [folder.record(path) for path in experiment.shares]
    allocations.end(folder, experiment)
    folder.remove()
    return sum(1 for record in records if record is not None and record.state == "running")


def connection_settings(settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the shared folder that the settings of a stack name."""
    shared = str(settings.get("symphony:sharedFolder") or "")
    return {"shared": str(Path(shared).expanduser().absolute())} if shared else {}


def terminate_early(recorded: Recorded) -> None:
    """Do nothing: the deletion of the allocation ends all processes at once."""


def ensure_reachable(recorded: Recorded) -> None:
    """Raise SymphonyError if Slurm does not answer, since a deletion could not end the job."""
    Queue().job(_folder(recorded))


def deletion_blockers(recorded: Recorded) -> str:
    """Return an empty string: the error of the deletion names what blocks it."""
    return ""


def _statuses(recorded: Recorded, queue: Queue) -> Sequence[ProcessStatus] | SymphonyError:
    try:
        job = queue.job(_folder(recorded))
    except SymphonyError as error:
        return error
    return [_status(recorded, path, job) for path in recorded.processes]


def _folder(recorded: Recorded) -> Folder:
    return Folder(recorded.connection["folder"])


def _condition(recorded: Recorded, path: str, job: Job | None) -> Condition:
    attempt = int(recorded.processes[path].get("attempt") or 0)
    return condition(_folder(recorded), path, attempt, job)


def _status(recorded: Recorded, path: str, job: Job | None) -> ProcessStatus:
    process = recorded.processes[path]
    log = str(process.get("log") or "")
    now = _condition(recorded, path, job)
    record, reason, words = now.record or _NO_RECORD, now.reason, ()
    services: Mapping[str, str] = process.get("services") or {}
    is_over = now.state in ("completed", "failed")
    if now.state == "failed" and (words := _last_words(log)) and not record.why:
        reason = f"{reason}: {words[-1].strip()[:_WIDEST]}"
    elif now.state == "completed":
        reason = ""
    completes = now.state == "stopped" and record.hold is not None and record.hold.stopped == "completed"
    status = ProcessStatus(
        path=path,
        state="completed" if completes else now.state,
        ready=now.state == "running" and record.ready,
        why=f"stopped: {reason}" if completes else reason,
        since=_since(recorded, now.state, record, job) or None,
        words=words[-3:],
        node=record.node,
        code=services.get(VARIABLE, ""),
        waits_for=record.hold.waits() if record.hold and now.state in ("waiting", "blocked") else (),
        exit_code=(128 + record.signal if record.signal else record.exit) if is_over else None,
    )
    if process.get("restart_policy") in (None, "Never") or now.state not in (
        "running",
        "completed",
        "failed",
    ):
        return status
    from symphony.backends import process_logs

    return process_logs.starting_again(status, log, int(process["attempt"]))


def _since(recorded: Recorded, state: str, record: Record, job: Job | None) -> float:
    """Return when the state began; 0 if that is not known."""
    if state == "waiting" and job is not None and job.is_waiting:
        return _queued_since(_folder(recorded), job)
    if state == "lost":
        ended = _folder(recorded).ended()
        return ended.at if ended is not None and ended.job == record.job else 0
    return record.ended if state in ("completed", "failed") else record.began


def _queued_since(folder: Folder, job: Job) -> float:
    """Return when a job came into the queue: at its submission, or when its last run ended."""
    ended, submitted = last_end(folder, job), folder.job()
    return ended.at if ended is not None else submitted.submitted if submitted is not None else 0


def _last_words(log: str) -> tuple[str, ...]:
    from symphony.backends import process_logs

    return process_logs.last_lines(log, _LINES) if log else ()


def _chain(recorded: Recorded, process: Mapping[str, Any], name: str) -> Iterator[Link]:
    folder, path = _folder(recorded), str(process["path"])
    again = f"`symphony up {name}` restarts it"
    yield following.planned_link(process)
    submitted = folder.job()
    if submitted is None:
        yield Link("submitted", "no: the job no longer exists", broken=True, remedy=again)
        return
    yield Link("submitted", f"job {submitted.number}", submitted.submitted)
    job = Queue().job(folder)
    now = _condition(recorded, path, job)
    record = now.record
    if job is not None and job.is_waiting:
        if (ended := last_end(folder, job)) is not None:
            yield Link("ended", f"the last run of the job: {ended.why}", ended.at)
        remedy = "The process starts when the job starts"
        yield Link("queue", in_queue(job, ended), _queued_since(folder, job), True, remedy=remedy)
        return
    if record is not None and record.node:
        attempt = f", start {record.attempt}" if record.attempt > 1 else ""
        yield Link("placed", f"node {record.node}{attempt}", record.began or None)
    yield from following.failed_cmds(folder.process(path))
    if now.state in ("waiting", "blocked", "stopped"):
        remedy = "" if now.is_good else again
        yield Link(now.state, now.reason, record.began if record else None, broken=True, remedy=remedy)
    elif now.state == "running" and record is not None and not record.ready:
        reason = now.reason or "it has just started"
        yield Link("ready", f"no: {reason}", record.began, True, _last_words(str(process["log"])))
    elif now.state == "running":
        left = f"; the job's time limit is in {job.left}" if job is not None and job.left else ""
        yield Link("ready", f"running{left}", record.began if record else None)
        if now.reason:
            yield Link(
                "services",
                f"{now.reason} since this process started",
                broken=True,
                remedy=f"`symphony restart {name} {path}` gives it the new address",
            )
    elif now.state == "lost":
        yield Link("lost", now.reason, broken=True, more=_last_words(str(process["log"])), remedy=again)
    elif record is not None and now.state == "completed":
        yield Link("exit", "exit 0", record.ended)
    elif record is not None:
        remedy = f"`symphony logs {name} {path}` shows its whole output; {again}"
        what = f"{end_reason(record)}: {record.why}" if record.why else end_reason(record)
        yield Link("exit", what, record.ended, True, _last_words(str(process["log"])), remedy)
