"""Creates, diffs, reads, updates and deletes the job of an experiment."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symphony import files
from symphony.errors import SymphonyError
from symphony_dynamic.provider import Difference
from symphony_slurm import commands, inputs
from symphony_slurm.commands import Job
from symphony_slurm.folder import Experiment, Folder, Submitted
from symphony_slurm.inputs import AllocationInputs
from symphony_slurm.observe import Queue, last_end
from symphony_tmux import experiment_folder
from symphony_tmux.experiment_folder import KINDS
from symphony_tmux.processes.launch_file import quote

Props = Mapping[str, Any]
IDENTITY = ("place",)
inputs_of = inputs.allocation_inputs
# Seconds that a cancelled job may take to end, and between two looks.
_END_TIMEOUT, _PERIOD = 30.0, 0.3
# Slurm signals the supervisor this many seconds and the grace period before the time limit.
_BEFORE_LIMIT = 30

# Restarts a killed supervisor, and forwards the signals that Slurm sends to the shell alone.
_BATCH = b"""#!/bin/sh
over=
pid=
end() {
    over=1
    [ -z "$pid" ] || kill -"$1" "$pid"
}
trap 'end TERM' TERM
trap 'end USR1' USR1
again=
# While this file exists, records may be from before Slurm requeued the job; the supervisor removes it.
: >%s
while [ -z "$over" ]; do
    %s -P -m symphony_slurm.supervisor %s $again &
    pid=$!
    [ -z "$over" ] || end TERM
    # A signal ends the wait, not always the supervisor.
    while wait "$pid"; code=$?; kill -0 "$pid"; do :; done 2>/dev/null
    [ "$code" -gt 128 ] || exit "$code"
    again=again
    sleep 1
done
exit "$code"
"""


def repairs(news: Props, old_inputs: Props, queue: Queue) -> dict[str, Any]:
    """Return no repairs: if the job no longer exists, its steps report it."""
    return {}


def create(props: Props, queue: Queue) -> tuple[str, dict[str, Any]]:
    """Submit the job, or take over one that an interrupted run submitted."""
    declared = inputs_of(props)
    return Path(declared.place).name, _apply(declared, props, queue)


def diff(olds: Props, news: Props, queue: Queue) -> Difference:
    """Return the changes; another folder needs another resource."""
    if olds["place"] != news["place"]:
        return Difference(IDENTITY, IDENTITY)
    changed = [name for name in ("declared", "options") if olds.get(name) != news.get(name)]
    place = Path(str(news["place"]))
    # An `up` that sbatch refused has written its options, although the engine does not know them.
    if "options" not in changed and Folder(place).options() != tuple(news.get("options") or ()):
        changed.append("options")
    changed += [
        kind for kind in KINDS if not experiment_folder.are_copied(place / kind, news.get(kind) or ())
    ]
    return Difference(tuple(changed))


def read(props: Props, queue: Queue) -> dict[str, Any] | None:
    """Return the outputs; None if the folder no longer exists."""
    return dict(props) if Folder(str(props["place"])).experiment() is not None else None


def update(olds: Props, news: Props, queue: Queue) -> dict[str, Any]:
    """Write the new declaration for the supervisor; if the options of the job changed, submit another job."""
    declared = inputs_of(news)
    if Folder(declared.place).options() != declared.options:
        end(Folder(declared.place), declared.experiment)
    return _apply(declared, news, queue)


def delete(props: Props, queue: Queue) -> None:
    """End the job and remove its folder."""
    declared = inputs_of(props)
    folder = Folder(declared.place)
    end(folder, declared.experiment)
    folder.remove()


def ensure_job(folder: Folder, queue: Queue) -> None:
    """Submit a job unless a job of the experiment waits or runs.

    The job may have ended by the time that one of its processes is to start again.
    """
    experiment = folder.experiment()
    if experiment is None:
        return
    with files.locked(folder.submit_lock, seconds=60, what=f"experiment {experiment.name}"):
        job = queue.job(folder)
        if job is not None and _is_alive(folder, job):
            return
        job = live_job(folder, experiment)
        number = job.number if job is not None else _submit(folder, experiment)
        folder.note_job(Submitted(number=number, submitted=time.time()))


def live_job(folder: Folder, experiment: Experiment) -> Job | None:
    """Return the job of an experiment; None if no job waits, or runs and is not about to end."""
    submitted = folder.job()
    # An interrupted run may have submitted a newer one without recording it.
    first = submitted.number if submitted is not None else 0
    jobs = commands.jobs(experiment.configuration).values()
    own = [job for job in jobs if job.comment == experiment.owner and job.number >= first]
    return min((job for job in own if _is_alive(folder, job)), key=lambda job: job.number, default=None)


def _is_alive(folder: Folder, job: Job) -> bool:
    """Return whether a job still starts processes: one that ends by itself may yet run symphony:notify."""
    ended = last_end(folder, job)
    return not (job.has_ended or (ended is not None and ended.by_itself))


def end(folder: Folder, experiment: Experiment) -> None:
    """End every job of this experiment and wait until Slurm has ended it; no other job is touched.

    Raises:
        SymphonyError: A job does not end.
    """
    # The supervisor gives the processes their grace period; Slurm would kill them after its own KillWait.
    own = _own(experiment)
    began, is_cancelled = time.monotonic(), False
    for job in own:
        if job.is_waiting:
            commands.cancel(experiment.configuration, [job.number])
        elif not job.has_ended:
            commands.cancel(experiment.configuration, [job.number], "--signal=USR1", "--batch")
    while own := _own(experiment):
        elapsed = time.monotonic() - began
        if elapsed > experiment.grace + 5 and not is_cancelled:
            is_cancelled = True
            commands.cancel(experiment.configuration, [job.number for job in own])
        if elapsed > experiment.grace + 5 + _END_TIMEOUT:
            raise SymphonyError(
                f"job {own[0].number} does not end; its state is {own[0].state}",
                remedy="`squeue` shows it; when it has ended, run this command of symphony again",
            )
        time.sleep(_PERIOD)


def _own(experiment: Experiment) -> list[Job]:
    """Return the jobs with this experiment's owner id of which a process may still run or start."""
    jobs = commands.jobs(experiment.configuration).values()
    return [job for job in jobs if job.comment == experiment.owner and job.has_processes]


def _apply(declared: AllocationInputs, props: Props, queue: Queue) -> dict[str, Any]:
    """Write the files and the declaration into the folder, submit a job if needed, and return the outputs."""
    folder, experiment = Folder(declared.place), declared.experiment
    folder.make()
    for kind in KINDS:
        experiment_folder.copy_files(folder.place / kind, getattr(declared, kind))
    folder.declare(experiment)
    for stray in folder.requested_starts().keys() - experiment.shares.keys():
        folder.unwant(stray)
    if folder.options() != declared.options:
        folder.note_options(declared.options)
        ensure_job(folder, queue)
    return inputs.repeated_inputs(props, AllocationInputs)


def _submit(folder: Folder, experiment: Experiment) -> int:
    """Submit the batch script and return the number of its job."""
    options = [*(folder.options() or ())]
    # The first component of a heterogeneous job runs the batch script.
    first = options.index(":") if ":" in options else len(options)
    options[first:first] = [
        f"--job-name={experiment.name}",
        f"--comment={experiment.owner}",
        f"--output={folder.batch_log}",
        "--open-mode=append",
        "--input=/dev/null",
        f"--chdir={folder.place}",
        "--export=ALL",
        f"--signal=B:TERM@{int(experiment.grace) + _BEFORE_LIMIT}",
    ]
    file = folder.place / "batch.sh"
    words = (folder.starting, sys.executable, folder.place)
    starting, python, place = (quote(str(word).encode()) for word in words)
    files.replace(file, _BATCH % (starting, python, place), mode=0o700)
    return commands.submit(experiment.configuration, options, str(file))
