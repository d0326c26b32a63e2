"""Reads the condition of a process from its record and its job."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import Literal

from symphony.errors import SymphonyError
from symphony_slurm import commands
from symphony_slurm.commands import Job
from symphony_slurm.folder import Ended, Folder, Record
from symphony_tmux.processes.observe import signal_name

State = Literal["running", "completed", "failed", "lost", "waiting", "blocked", "stopped"]
IN_QUEUE = "in the queue"
NO_ROOM = "no space left in the shared folder"
# Bytes that the files of a start take at most.
_ROOM = 1 << 17
# Reason of squeue -> its explanation.
_REASONS = {
    "Priority": "other jobs have a higher priority",
    "Resources": "its nodes are in use",
    "PartitionTimeLimit": "symphony:time is longer than the partition allows",
    "PartitionNodeLimit": "it asks for more nodes than the partition has",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "ReqNodeNotAvail": "a node that it needs is not available",
    "AssocGrpCpuLimit": "the account has used its share of processors",
    "QOSMaxJobsPerUserLimit": "the QOS allows this user no more jobs",
    "QOSMaxCpuPerUserLimit": "the QOS allows this user no more processors",
    "BeginTime": "its start time is in the future",
    "JobHeldUser": "it is held; `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds it",
    "Dependency": "it waits for another job",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of a process, its reason in words, and the current record of the supervisor, if any."""

    state: State
    reason: str = ""
    record: Record | None = None

    @property
    def is_good(self) -> bool:
        """Return whether it needs no repair.

        That is so if it runs, waits, has completed, was stopped with the primaries, or is blocked in an
        experiment that no limit has ended.
        """
        hold = self.record.hold if self.record is not None else None
        if self.state in ("stopped", "blocked") and hold is not None and hold.stopped:
            return hold.stopped != "stopped"
        return self.state in ("running", "completed", "waiting", "blocked")


class Queue:
    """The jobs of this user, read again after a second, or after 0.2 s for a job that is not among them."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[float, dict[int, Job] | SymphonyError]] = {}

    def job(self, folder: Folder) -> Job | None:
        """Return the job of an experiment; None if Slurm no longer knows it.

        Raises:
            SymphonyError: Slurm does not answer.
        """
        experiment, submitted = folder.experiment(), folder.job()
        if experiment is None or submitted is None:
            return None
        moment, jobs = self._asked.get(experiment.configuration, (0.0, {}))
        age = time.monotonic() - moment
        if age > 1 or (not isinstance(jobs, SymphonyError) and submitted.number not in jobs and age > 0.2):
            try:
                jobs = commands.jobs(experiment.configuration)
            except SymphonyError as error:
                jobs = error
            self._asked[experiment.configuration] = (time.monotonic(), jobs)
        if isinstance(jobs, SymphonyError):
            raise jobs
        return jobs.get(submitted.number)


def condition(folder: Folder, path: str, attempt: int, job: Job | None) -> Condition:
    """Return the condition of this attempt of a process; job: None if Slurm has forgotten it."""
    record = folder.record(path)
    if record is not None and record.attempt >= attempt:
        if record.state == "ended":
            if record.signal or record.exit:
                return Condition("failed", record.why or end_reason(record), record)
            return Condition("completed", "it exited with code 0", record)
        # A job that is requeued, such as after the failure of a node, starts a lost one again.
        if record.state == "lost" and not (job is not None and job.is_waiting):
            return Condition("lost", record.why, record)
        if record.hold is not None and record.hold.stopped:
            return Condition(record.hold.state, record.hold.why, record)
    if job is not None and job.state == "COMPLETING" and last_end(folder, job) is None:
        return Condition("running", "its job is ending", record)
    if job is None or job.has_ended:
        return Condition("lost", why_ended(folder, job), record)
    if job.is_waiting:
        return Condition("waiting", in_queue(job, last_end(folder, job)), record)
    is_current = record is not None and record.attempt >= attempt and record.job == job.number
    if record is None or not is_current or folder.starting.exists():
        is_full = shutil.disk_usage(folder.place).free < _ROOM
        return Condition("waiting", NO_ROOM if is_full else "its allocation has begun", None)
    if record.hold is not None and not record.hold.is_over:
        return Condition(record.hold.state, record.hold.why, record)
    if record.state == "starting" or record.hold is not None:
        return Condition("waiting", record.why or "its step starts", record)
    return Condition("running", record.why, record)


def last_end(folder: Folder, job: Job) -> Ended | None:
    """Return the end of the last run of a job, which Slurm may have requeued; None if it has not ended."""
    ended = folder.ended()
    return ended if ended is not None and ended.job == job.number else None


def in_queue(job: Job, ended: Ended | None = None) -> str:
    """Return why a job has not begun, or not begun again: `in the queue: Licenses, starts about 14:20`."""
    queue = f"{IN_QUEUE} again" if ended is not None else IN_QUEUE
    reason = job.reason.strip("()")
    words = _REASONS.get(reason)
    why = f"{reason} ({words})" if words else reason
    # Slurm writes 2026-11-25T14:20:00, or N/A.
    day, _, clock = job.start.partition("T")
    day = "" if day == time.strftime("%Y-%m-%d") else f"{day} "
    start = f", starts about {day}{clock[:5]}" if clock else ""
    return f"{queue}: {why}{start}" if reason and reason != "None" else f"{queue}{start}"


def why_ended(folder: Folder, job: Job | None) -> str:
    """Return the reason why an experiment has no job: its supervisor's, else Slurm's."""
    submitted, ended = folder.job(), folder.ended()
    if submitted is None:
        return "its job was never submitted"
    if ended is not None and ended.job == submitted.number:
        return f"job {submitted.number} has ended: {ended.why}"
    state = f": {job.state}" if job is not None else ""
    return f"job {submitted.number} has ended{state}"


def end_reason(record: Record) -> str:
    """Return the end of a process as `exit 1` or `SIGKILL`."""
    return signal_name(record.signal) if record.signal else f"exit {record.exit}"
