"""Reaches into the processes of an experiment: commands as further steps, files on the shared disk."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from symphony.backends.access import ServiceRoute, Streams
from symphony.backends.local_folder import fetch as fetch
from symphony.backends.local_folder import send as send
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError
from symphony_slurm import commands
from symphony_slurm.folder import Folder

# srun's own line about a task that did not end with 0, among the output of the command.
_OF_SRUN = re.compile(
    rb"srun: error: \S+: task 0: (Exited with exit code|Killed|Terminated|Aborted|.*fault).*\n"
)


def execute(recorded: Recorded, path: str, words: Sequence[str], streams: Streams) -> int:
    """Run a command as the process would, on its node, as a further step of the job."""
    if any("\0" in word for word in words):
        raise UserError("a word of the command contains a NUL byte", remedy="No program can be given one")
    return _step(recorded, path, words, streams, terminal=False)


def shell(recorded: Recorded, path: str, streams: Streams) -> int:
    """Run a shell beside the process, in this terminal. UserError: there is no terminal."""
    if not streams.terminal:
        raise UserError("there is no terminal here", remedy="`symphony exec` runs a command without one")
    return _step(recorded, path, [os.environ.get("SHELL") or "/bin/sh"], streams, terminal=True)


def route(recorded: Recorded, service: str, address: str) -> ServiceRoute:
    """Return where the service is now, as its node published it."""
    known = Folder(recorded.connection["folder"]).addresses().get(service)
    if known is None:
        what = f"{service} has no address yet: no node serves it"
        raise SymphonyError(what, remedy="`symphony process` shows why its process does not run")
    return ServiceRoute(f"{known.host}:{known.port}")


def _step(recorded: Recorded, path: str, words: Sequence[str], streams: Streams, *, terminal: bool) -> int:
    folder = Folder(recorded.connection["folder"])
    record, experiment = folder.record(path), folder.experiment()
    if record is None or experiment is None or not record.node:
        raise SymphonyError(f"{path} has no node yet", remedy="`symphony process` shows what it waits for")
    srun = ["srun", f"--jobid={record.job}", "--overlap", "-N1", "-n1", "--mem=0", "--gres=none", "--quiet"]
    srun += [f"--nodelist={record.node}", "--export=ALL", *(["--pty"] if terminal else [])]
    try:
        process = subprocess.Popen(
            [*srun, *folder.beside(path, record.attempt), *words],
            env=commands.environment(experiment.configuration),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr if terminal else subprocess.PIPE,
        )
        if process.stderr is None:
            return process.wait()
        telling = threading.Thread(target=_on_bytes, args=(process.stderr, streams.stderr))
        telling.start()
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()
            raise
        finally:
            telling.join(5)
    except FileNotFoundError:
        raise SymphonyError("there is no srun on PATH", remedy="Run this on a login node") from None


def _on_bytes(source: IO[bytes], target: int) -> None:
    """Pass the errors of a command on, without what srun says of its exit code."""
    for line in source:
        if not _OF_SRUN.fullmatch(line):
            os.write(target, line)
