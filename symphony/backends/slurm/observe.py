"""The processes of an experiment on Slurm, from the files of its folder and one look at the queue."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.backends.observe import (
    LIMIT,
    PATIENCE,
    Link,
    LogLine,
    ProcessStatus,
    Recorded,
    Resource,
)
from symphony.content.code_files import VARIABLE
from symphony.errors import SymphonyError
from symphony.plan.names import printable
from symphony_slurm import commands, inputs
from symphony_slurm.commands import Job
from symphony_slurm.folder import Folder, folder_of
from symphony_slurm.observe import Condition, condition, how, in_queue
from symphony_tmux.processes import launch_file

ALLOCATION_TYPE = "pulumi-python:dynamic/symphony_slurm:Allocation"
STEP_TYPE = "pulumi-python:dynamic/symphony_slurm:Step"
# Seconds between two looks at processes that start, and that they are looked at after they all run.
_LOOK = 0.3
_LINES = 5
_WIDEST = 120
Jobs = Mapping[int, Job] | SymphonyError


def recorded(owner: str, resources: Iterable[Resource]) -> Recorded | None:
    """Return the experiment that the state has on Slurm; None when it has no allocation and no step."""
    folder, steps = "", dict[str, Mapping[str, Any]]()
    for resource in resources:
        if resource.type == ALLOCATION_TYPE:
            folder = str(resource.outputs.get("folder") or resource.inputs.get("folder"))
        elif resource.type == STEP_TYPE:
            step = {**resource.inputs, **resource.outputs}
            folder = folder or str(step["folder"])
            steps[str(step["path"])] = {**step, "fingerprint": inputs.fingerprint(step)}
    if not folder:
        return None
    return Recorded(owner, Path(folder).name.rpartition("-")[0], steps, connection={"folder": folder})


def statuses(recorded: Sequence[Recorded]) -> list[Sequence[ProcessStatus] | SymphonyError]:
    """Return the status of the processes of several experiments, with one look at each queue."""
    known: dict[str, Jobs] = {}
    return [_statuses(each, known) for each in recorded]


def restart_reasons(recorded: Recorded) -> dict[str, str]:
    """Return path -> why the next `up` restarts a process whose settings did not change."""
    job = _job(recorded, {})
    if isinstance(job, SymphonyError):
        raise job
    conditions = {path: _condition(recorded, path, job) for path in recorded.processes}
    return {path: each.reason for path, each in conditions.items() if not each.is_good}


def watch(
    recorded: Recorded, *, patience: float = PATIENCE, limit: float = LIMIT
) -> Iterator[tuple[ProcessStatus, ...]]:
    """Yield the statuses, again whenever one changes, until every process has begun or the queue is long."""
    began, last, idle = time.monotonic(), None, time.monotonic()
    while True:
        answer = statuses([recorded])[0]
        if isinstance(answer, SymphonyError):
            raise answer
        now = tuple(answer)
        if now != last:
            yield now
        last, waited = now, time.monotonic() - began
        job = _job(recorded, {})
        if isinstance(job, Job) and not job.is_waiting:
            starting = any(status.state == "waiting" and not status.waits_for for status in now)
            if not starting or waited > limit:
                return
        elif job is None or time.monotonic() - idle > patience:
            return
        time.sleep(_LOOK)


def logs(
    recorded: Recorded,
    paths: Sequence[str],
    *,
    follow: bool = False,
    since: float | None = None,
    tail: int | None = None,
) -> Iterator[LogLine]:
    """Yield the output of several processes, merged by time."""
    from symphony.backends import process_logs

    def alive() -> bool:
        answer = statuses([recorded])[0]
        return isinstance(answer, SymphonyError) or any(
            status.state in ("running", "waiting") and status.path in paths for status in answer
        )

    return process_logs.merged(recorded.processes, paths, since=since, tail=tail, follow=follow, alive=alive)


def why(recorded: Recorded, path: str, name: str) -> Sequence[Link]:
    """Return the steps of one process up to its state, or to where it failed."""
    facts = recorded.processes.get(path)
    if facts is None:
        again = f"`symphony up {name}` tries again and says why it fails"
        return [Link("started", "no: the last `up` stopped before starting it", broken=True, remedy=again)]
    return list(_chain(recorded, facts, name))


def ensure_same_location(
    recorded: Recorded, name: str, connection: Mapping[str, str] | None = None
) -> Recorded:
    """Return the record: every machine that sees the shared folder will do."""
    return recorded


def delete_orphans(owner: str, physical_name: str, recorded: Recorded | None = None) -> int:
    """End the job of an owner that no state knows; how many processes ran in it."""
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
    records = [folder.record(path) for path in experiment.members]
    allocations.end(folder, experiment)
    folder.remove()
    return sum(1 for record in records if record is not None and record.state == "running")


def connection_settings(settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the folder that the nodes see, as the settings of a stack name it."""
    shared = str(settings.get("symphony:sharedFolder") or "")
    return {"shared": str(Path(shared).expanduser().absolute())} if shared else {}


def terminate_early(recorded: Recorded) -> None:
    """Do nothing: the deletion of the allocation ends all processes at once."""


def ensure_reachable(recorded: Recorded) -> None:
    """Raise SymphonyError where Slurm does not answer: a deletion could not end the job."""
    if isinstance(job := _job(recorded, {}), SymphonyError):
        raise job


def deletion_blockers(recorded: Recorded) -> str:
    """Return nothing: the error of the deletion says what it waits for."""
    return ""


def _statuses(recorded: Recorded, known: dict[str, Jobs]) -> Sequence[ProcessStatus] | SymphonyError:
    job = _job(recorded, known)
    if isinstance(job, SymphonyError):
        return job
    return [_status(recorded, path, job) for path in recorded.processes]


def _job(recorded: Recorded, known: dict[str, Jobs]) -> Job | SymphonyError | None:
    """Return the job of an experiment; None where Slurm has forgotten it."""
    folder = Folder(recorded.connection["folder"])
    experiment, submitted = folder.experiment(), folder.job()
    configuration = experiment.configuration if experiment else ""
    if configuration not in known:
        try:
            known[configuration] = commands.jobs(configuration)
        except SymphonyError as error:
            known[configuration] = error
    jobs = known[configuration]
    if isinstance(jobs, SymphonyError):
        return jobs
    return jobs.get(submitted.number) if submitted else None


def _condition(recorded: Recorded, path: str, job: Job | None) -> Condition:
    attempt = int(recorded.processes[path].get("attempt") or 0)
    return condition(Folder(recorded.connection["folder"]), path, attempt, job)


def _status(recorded: Recorded, path: str, job: Job | None) -> ProcessStatus:
    from symphony_tmux import logs as files

    facts = recorded.processes[path]
    log = str(facts.get("log") or "")
    now = _condition(recorded, path, job)
    record = now.record
    services: Mapping[str, str] = facts.get("services") or {}
    restarts, last, again = 0, "", False
    if facts.get("restart_policy") not in (None, "Never"):
        restarts = files.restarts(log)
        last, again = _before(log) if now.state == "running" else ("", False)
    words, reason, since = (), now.reason, None
    if record is not None:
        since = record.ended if record.state == "ended" else record.began
    if now.state == "failed":
        words = _last_words(log)
        if words and record is not None and not record.why:
            reason = f"{reason}: {words[-1].strip()[:_WIDEST]}"
    elif now.state == "completed":
        reason = ""
    if again:
        reason = f"starts again after {last}"
    return ProcessStatus(
        path=path,
        state="waiting" if again else now.state,
        ready=now.state == "running" and not again,
        restarts=restarts,
        last="" if again else last,
        why=reason,
        since=since or None,
        words=words[-3:],
        node=record.node if record else "",
        code=services.get(VARIABLE, ""),
        waits_for=record.waits_for if record and now.state in ("waiting", "blocked") else (),
    )


def _before(log: str) -> tuple[str, bool]:
    """Return how the last start that has ended did, and whether none has followed it yet."""
    from symphony.backends import process_logs
    from symphony_tmux import logs as files

    ends = [end for _, _, end in files.attempts(log)[-2:]]
    if ends and ends[-1] is not None:
        return process_logs.how(ends[-1]), True
    return (process_logs.how(ends[0]) if len(ends) > 1 and ends[0] is not None else ""), False


def _last_words(log: str) -> tuple[str, ...]:
    from symphony.backends import process_logs

    return process_logs.last_lines(log, _LINES) if log else ()


def _chain(recorded: Recorded, facts: Mapping[str, Any], name: str) -> Iterator[Link]:
    folder, path = Folder(recorded.connection["folder"]), str(facts["path"])
    again = f"`symphony up {name}` starts it again"
    script, argv = facts.get("script") or (), facts.get("argv") or ()
    words = "; ".join(map(str, script)) or shlex.join(map(str, argv))
    yield Link("planned", f"{printable(words, _WIDEST)} in {facts['cwd']}")
    submitted = folder.job()
    if submitted is None:
        yield Link("submitted", "no: its job is gone", broken=True, remedy=again)
        return
    yield Link("submitted", f"job {submitted.number}", submitted.submitted)
    job = _job(recorded, {})
    if isinstance(job, SymphonyError):
        yield Link("seen", f"no: {job.what}", broken=True, remedy=job.remedy)
        return
    now = _condition(recorded, path, job)
    record = now.record
    if job is not None and job.is_waiting:
        remedy = "It starts by itself when the job does"
        yield Link("queue", in_queue(job), submitted.submitted, True, remedy=remedy)
        return
    if record is not None and record.node:
        attempt = f", start {record.attempt} of it" if record.attempt > 1 else ""
        yield Link("placed", f"node {record.node}{attempt}", record.began or None)
    if failed := launch_file.failed_lines(folder.process(path)):
        yield Link("cmds", printable("; ".join(failed), 3 * _WIDEST))
    if now.state in ("waiting", "blocked"):
        yield Link(now.state, now.reason, broken=True)
    elif now.state == "running":
        left = f"; its job may run for another {job.left}" if job is not None and job.left else ""
        yield Link("ready", f"running{left}", record.began if record else None)
    elif now.state == "lost":
        yield Link("lost", now.reason, broken=True, more=_last_words(str(facts["log"])), remedy=again)
    elif record is not None and now.state == "completed":
        yield Link("exit", "exit 0", record.ended)
    elif record is not None:
        remedy = f"`symphony logs {name} {path}` shows its whole output; {again}"
        what = f"{how(record)}: {record.why}" if record.why else how(record)
        yield Link("exit", what, record.ended, True, _last_words(str(facts["log"])), remedy)
