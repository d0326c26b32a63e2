"""Reaches into the processes of an experiment: commands as further steps, files on the shared disk."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from symphony import files
from symphony.backends.access import Copied, OnBytes, ServiceRoute, Streams
from symphony.backends.observe import Recorded
from symphony.errors import SymphonyError, UserError
from symphony_slurm import commands, steps
from symphony_slurm.folder import Folder, Record
from symphony_slurm.inputs import StepInputs

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


def send(recorded: Recorded, path: str, source: Path, place: str, on_bytes: OnBytes) -> Copied:
    """Copy to a place on the shared disk, beginning at the folder of the process."""
    from symphony.backends import copying

    return copying.copy(source, copying.final_name(_placed(recorded, path, place), source.name), on_bytes)


def fetch(recorded: Recorded, path: str, place: str, target: Path, on_bytes: OnBytes) -> Copied:
    """Copy from a place on the shared disk, beginning at the folder of the process."""
    from symphony.backends import copying

    return copying.copy(Path(_placed(recorded, path, place)), target, on_bytes)


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
    file = _launch_file(recorded, folder, record, words)
    try:
        srun = [
            "srun",
            f"--jobid={record.job}",
            "--overlap",
            "-N1",
            "-n1",
            "--mem=0",
            "--gres=none",
            "--quiet",
        ]
        srun += [f"--nodelist={record.node}", "--export=ALL", *(["--pty"] if terminal else [])]
        process = subprocess.Popen(
            [*srun, "/bin/sh", str(file)],
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
    finally:
        with suppress(OSError):
            file.unlink()


def _launch_file(recorded: Recorded, folder: Folder, record: Record, words: Sequence[str]) -> Path:
    """Write the launch file of a command in the environment of the process."""
    facts = recorded.processes[record.path]
    own: dict[str, Any] = {
        name: facts[name] for name in StepInputs.__struct_fields__ if facts.get(name) and name != "secret_env"
    }
    process = msgspec.structs.replace(steps.inputs_of(own), argv=tuple(words), script=())
    file = folder.process(record.path) / f"exec.{os.getpid()}.{os.urandom(4).hex()}.sh"
    files.create(file, steps.launch(folder, process, record.attempt))
    return file


def _on_bytes(source: IO[bytes], target: int) -> None:
    """Pass the errors of a command on, without what srun says of its exit code."""
    for line in source:
        if not _OF_SRUN.fullmatch(line):
            os.write(target, line)


def _placed(recorded: Recorded, path: str, place: str) -> str:
    """Return a place as the process sees it; an ending slash says that it is a folder."""
    return os.path.join(str(recorded.processes[path]["cwd"]), place)  # noqa: PTH118 - keeps the slash
