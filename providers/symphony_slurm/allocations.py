"""Create, diff, read, update, delete of the job of one experiment, over plain dicts."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony import files
from symphony.errors import SymphonyError
from symphony_slurm import commands, inputs
from symphony_slurm.commands import Job
from symphony_slurm.folder import CONFIGS, SECRETS, Experiment, Folder, Submitted
from symphony_slurm.inputs import REASON, AllocationInputs
from symphony_slurm.observe import why_ended

Props = Mapping[str, Any]
IDENTITY = ("folder",)
inputs_of = inputs.allocation_inputs
# Seconds that a job may need to end beside the grace of its processes, and between two looks.
_ENDING, _LOOK = 30.0, 0.3
# The supervisor is told so long before the time limit, beside the grace.
_BEFORE_LIMIT = 30


def repairs(news: Props, old_inputs: Props) -> dict[str, Any]:
    """Return what `check` adds to the inputs of an allocation that the state has."""
    wanted = inputs_of(news)
    folder = Folder(wanted.folder)
    job = live_job(folder, wanted.experiment)
    is_good = job is not None or not _is_needed(folder, wanted.experiment)
    return {} if is_good else {REASON: why_ended(folder, None)}


def create(props: Props) -> tuple[str, dict[str, Any]]:
    """Submit the job, or take over one that an interrupted run submitted."""
    wanted = inputs_of(props)
    return Path(wanted.folder).name, _made(wanted, props)


def diff(olds: Props, news: Props) -> tuple[list[str], list[str]]:
    """Return what differs, and what needs another resource."""
    if olds["folder"] != news["folder"]:
        return ["folder"], ["folder"]
    changed = [name for name in ("declared", "options") if olds.get(name) != news.get(name)]
    wanted = inputs_of(news)
    folder = Folder(wanted.folder)
    changed += [kind for kind in (SECRETS, CONFIGS) if not _are_copied(folder, kind, getattr(wanted, kind))]
    if live_job(folder, wanted.experiment) is None and _is_needed(folder, wanted.experiment):
        changed.append("job")
    return changed, []


def read(props: Props) -> dict[str, Any] | None:
    """Return the outputs; None when the job is gone."""
    wanted = inputs_of(props)
    return dict(props) if live_job(Folder(wanted.folder), wanted.experiment) is not None else None


def update(olds: Props, news: Props) -> dict[str, Any]:
    """Tell the supervisor what is declared, or submit another job where this one does not fit or is gone."""
    wanted = inputs_of(news)
    if [*(olds.get("options") or ())] != [*wanted.options]:
        end(Folder(wanted.folder), wanted.experiment)
    return _made(wanted, news)


def delete(props: Props) -> None:
    """End the job and remove its folder."""
    wanted = inputs_of(props)
    folder = Folder(wanted.folder)
    end(folder, wanted.experiment)
    folder.remove()


def live_job(folder: Folder, experiment: Experiment) -> Job | None:
    """Return the job of an experiment while it waits or runs."""
    jobs = commands.jobs(experiment.configuration)
    submitted = folder.job()
    if submitted is not None and (job := jobs.get(submitted.number)) is not None and not job.has_ended:
        return job
    # An interrupted run submitted it and could not say so.
    own = [job for job in jobs.values() if job.comment == experiment.owner and not job.has_ended]
    return own[-1] if own else None


def end(folder: Folder, experiment: Experiment) -> None:
    """End every job of this experiment and wait until Slurm has ended it; no other job is touched.

    Raises:
        SymphonyError: It does not end.
    """
    # The supervisor ends the processes with their grace; Slurm would kill them after its own KillWait.
    own = _own(experiment)
    began, asked = time.monotonic(), False
    for job in own:
        if job.is_waiting:
            commands.cancel(experiment.configuration, [job.number])
        else:
            words = ["scancel", "--signal=USR1", "--batch", str(job.number)]
            commands.call(experiment.configuration, words)
    while own := _own(experiment):
        late = time.monotonic() - began
        if late > experiment.grace + 5 and not asked:
            asked = True
            commands.cancel(experiment.configuration, [job.number for job in own])
        if late > experiment.grace + 5 + _ENDING:
            raise SymphonyError(
                f"job {own[0].number} does not end: {own[0].state}",
                remedy="`squeue` shows it; try again later",
            )
        time.sleep(_LOOK)


def _own(experiment: Experiment) -> list[Job]:
    """Return the jobs with the mark of this experiment that still have processes."""
    jobs = commands.jobs(experiment.configuration).values()
    over = (job for job in jobs if job.comment == experiment.owner)
    return [job for job in over if not job.has_ended or job.state == "COMPLETING"]


def _is_needed(folder: Folder, experiment: Experiment) -> bool:
    """Return whether a process is yet to run: an experiment whose processes have completed needs no job."""
    records = {path: folder.record(path) for path in experiment.members}
    return any(r is None or r.state != "ended" or r.exit or r.signal for r in records.values())


def _made(wanted: AllocationInputs, props: Props) -> dict[str, Any]:
    folder, experiment = Folder(wanted.folder), wanted.experiment
    folder.make()
    for kind in (SECRETS, CONFIGS):
        _copy(folder, kind, getattr(wanted, kind))
    folder.declare(experiment)
    for stray in folder.wanted().keys() - experiment.members.keys():
        folder.unwant(stray)
    job = live_job(folder, experiment)
    if job is None:
        number = commands.submit(experiment.configuration, _options(wanted, folder), str(_script(folder)))
        folder.note_job(Submitted(number=number, submitted=time.time()))
        folder.note_options(wanted.options)
    else:
        number = job.number
        if folder.job() is None:
            folder.note_job(Submitted(number=number, submitted=time.time()))
    return {**inputs.kept(props, AllocationInputs), "job": number}


def _options(wanted: AllocationInputs, folder: Folder) -> list[str]:
    experiment = wanted.experiment
    return [
        *wanted.options,
        f"--job-name={experiment.name}",
        f"--comment={experiment.owner}",
        f"--output={folder.place}/supervisor.log",
        "--open-mode=append",
        "--input=/dev/null",
        f"--chdir={folder.place}",
        "--export=ALL",
        f"--signal=B:TERM@{int(experiment.grace) + _BEFORE_LIMIT}",
    ]


def _script(folder: Folder) -> Path:
    """Write the batch script; its words need no quoting beyond that of a path."""
    file = folder.place / "batch.sh"
    words = [
        "exec",
        _quoted(sys.executable),
        "-P",
        "-m",
        "symphony_slurm.supervisor",
        _quoted(str(folder.place)),
    ]
    files.replace(file, f"#!/bin/sh\n{' '.join(words)}\n".encode(), mode=0o700)
    return file


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _copy(folder: Folder, kind: str, sources: tuple[str, ...]) -> None:
    home, wanted = folder.place / kind, {Path(source).name: Path(source) for source in sources}
    if not wanted and not home.is_dir():
        return
    files.fresh_folder(home)
    for stale in home.iterdir():
        if stale.name not in wanted:
            files.remove(stale)
    for name, source in wanted.items():
        files.replace(home / name, files.read_source(source), mode=0o400)


def _are_copied(folder: Folder, kind: str, sources: tuple[str, ...]) -> bool:
    home, wanted = folder.place / kind, {Path(source).name: Path(source) for source in sources}
    try:
        copies = (
            {copy.name: files.read(copy, limit=1 << 30) for copy in home.iterdir()} if home.is_dir() else {}
        )
        return copies == {name: files.read_source(source) for name, source in wanted.items()}
    except OSError:
        return False
