"""The Slurm backend's `access`: runs commands as further steps, copies files on the shared disk."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from symphony import paths
from symphony.backends.access import ServiceRoute, Streams
from symphony.backends.local_folder import fetch as fetch
from symphony.backends.local_folder import send as send
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError
from symphony_slurm import commands
from symphony_slurm.folder import Folder
from symphony_slurm.observe import in_queue, last_end, why_ended

# srun's line about a task that did not exit with 0, which is not output of the command.
_OF_SRUN = re.compile(
    rb"srun: error: \S+: task 0: (Exited with exit code|Killed|Terminated|Aborted|.*fault).*\n"
)


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    """Run a command on the process's node, with its environment, as a further step of the job."""
    if any("\0" in word for word in words):
        remedy = "Remove it: arguments cannot contain NUL"
        raise UserError("the command for exec contains a NUL byte", remedy=remedy)
    return _step(recorded, path, words, streams, terminal=False)


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    """Run a shell on the process's node, in this terminal.

    Raises:
        UserError: There is no terminal.
    """
    if not streams.terminal:
        raise UserError("this command needs a terminal", remedy="Use `symphony exec`, which needs none")
    return _step(recorded, path, [os.environ.get("SHELL") or "/bin/sh"], streams, terminal=True)


def route(recorded: Recorded, service: str, address: str) -> ServiceRoute:
    """Return the route to the service, whose node has published its address."""
    if address.endswith(":0"):
        what = f"the service {service} has no address yet: its process has not started"
        remedy = f"`symphony process {paths.stack_of(recorded.owner)}` shows the states of the processes"
        raise SymphonyError(what, remedy=remedy)
    return ServiceRoute(address)


def _step(recorded: Recorded, path: str, words: Sequence[str], streams: Streams, *, terminal: bool) -> int:
    folder = Folder(recorded.connection["folder"])
    record, experiment = folder.record(path), folder.experiment()
    has_started = record is not None and (
        record.hold is None or folder.services_link(path, record.attempt).exists()
    )
    if record is None or experiment is None or not has_started:
        remedy = f"`symphony why {paths.stack_of(recorded.owner)} {path}` shows what it waits for"
        raise SymphonyError(f"{path} has not started yet", remedy=remedy)
    job = commands.jobs(experiment.configuration).get(record.job)
    if job is None or job.has_ended:
        remedy = f"`symphony up {paths.stack_of(recorded.owner)}` submits another job"
        raise SymphonyError(f"{path} does not run: {why_ended(folder, job)}", remedy=remedy)
    if job.is_waiting:
        what = f"{path} does not run: {in_queue(job, last_end(folder, job))}"
        raise SymphonyError(what, remedy="The process starts when the job starts")
    srun = ["srun", f"--jobid={record.job}", "--overlap", "-N1", "-n1", "--mem=0", "--quiet"]
    # The GPUs of the process, which steps share since Slurm 21.08.
    srun.append(f"--gres={experiment.shares[path].gres or 'none'}")
    if (component := experiment.component(path)) is not None:
        srun.append(f"--het-group={component}")
    srun += [f"--nodelist={record.node}", "--export=ALL", *(["--pty"] if terminal else [])]
    try:
        process = subprocess.Popen(
            [*srun, *folder.in_environment(path, record.attempt), *words],
            env=commands.environment(experiment.configuration),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr if terminal else subprocess.PIPE,
        )
        if process.stderr is None:
            return process.wait()
        telling = threading.Thread(target=_forward_stderr, args=(process.stderr, streams.stderr))
        telling.start()
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()
            raise
        finally:
            telling.join(5)
    except FileNotFoundError:
        remedy = "Run this command on a login node of the cluster"
        raise SymphonyError("Slurm's program srun is not on PATH", remedy=remedy) from None


def _forward_stderr(source: IO[bytes], target: int) -> None:
    """Forward the stderr of a command, without srun's line about its exit code."""
    for line in source:
        if not _OF_SRUN.fullmatch(line):
            os.write(target, line)
