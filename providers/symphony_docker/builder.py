"""Builds images with the `docker build` command and BuildKit, and follows its progress."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from symphony import files
from symphony.errors import SymphonyError, UserError
from symphony_docker import failures
from symphony_docker.context import Context, archive
from symphony_docker.progress import OnProgress

# A build that takes longer is killed.
BUILD_SECONDS = 4 * 3600
_VERSION_SECONDS = 10
_INSTALL = "Install Docker's buildx plugin: see docs.docker.com/go/buildx"
# Lines of `--progress=plain`: `#7 [2/4] RUN make`, `#7 1.23 output`, `#7 DONE 0.3s`, `#7 ERROR: reason`.
_LINE = re.compile(r"#(\d+) (.*)")
_STEP = re.compile(r"\[(?:[^\]]* )?(\d+)/(\d+)\] (.*)")
_OUTPUT = re.compile(r"\d+\.\d+ (.*)")
_STEP_ENDED = re.compile(r"(DONE|CACHED|CANCELED|ERROR)\b.*")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_MAX_LINES = 2000
_STEP_LENGTH = 60


@dataclass(frozen=True)
class Build:
    """The arguments of `docker build`.

    platform: the platform of the image, or several, separated by commas.
    secrets:  id -> file, for `RUN --mount=type=secret,id=...`.
    """

    context: Context
    reference: str
    build_args: Mapping[str, str] = field(default_factory=dict[str, str])
    target: str = ""
    platform: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def has_many_platforms(self) -> bool:
        """Return whether the image is an index, which a registry can store but the engine cannot."""
        return "," in self.platform


def build(
    build: Build, host: str, report: OnProgress | None = None, log: Callable[[str], None] | None = None
) -> str:
    """Build an image and return its id; one for several platforms is pushed too, and its digest returned.

    Args:
        build: The image and its context.
        host: Address of the Docker engine, for errors.
        report: Called with the step, the transferred bytes and the total, if known.
        log: Called with each line of the output.

    Raises:
        UserError: A step failed, or this machine's Docker has no BuildKit.
        SymphonyError: The engine failed.
    """
    buildkit()
    with tempfile.TemporaryDirectory(dir=files.process_folder()) as folder:
        command = [*_command(build, Path(folder)), "-"]
        with _running(command, {**os.environ, "DOCKER_BUILDKIT": "1", "NO_COLOR": "1"}) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            errors: list[SymphonyError] = []
            sender = threading.Thread(target=_send, args=(build.context, process.stdin, errors), daemon=True)
            sender.start()
            steps = _Steps(build.context.dockerfile, report, log)
            for line in process.stdout:
                steps.add(line.decode(errors="replace").rstrip("\n"))
            sender.join()
        if errors:
            raise errors[0]
        if process.returncode:
            raise steps.failure(host)
        return _result(build, Path(folder))


def _command(build: Build, folder: Path) -> list[str]:
    # buildx knows the builders that `docker buildx create` made, and remote ones.
    has_buildx = bool(_version(program := docker(), "buildx", "version"))
    command = [program, "buildx", "build", "--load"] if has_buildx else [program, "build"]
    if build.has_many_platforms:
        if not has_buildx:
            what = "images for several platforms need Docker's buildx plugin, which is not installed"
            raise UserError(what, where=program, remedy=_INSTALL)
        command = [program, "buildx", "build", "--push", f"--metadata-file={folder / 'metadata'}"]
    command += ["--progress=plain", f"--file={build.context.dockerfile}"]
    command += [f"--tag={build.reference}"] if build.reference else []
    command += [f"--build-arg={name}={text}" for name, text in build.build_args.items()]
    command += [f"--label={name}={text}" for name, text in build.labels.items()]
    command += [f"--secret=id={name},src={file}" for name, file in build.secrets.items()]
    command += [f"--target={build.target}"] if build.target else []
    command += [f"--platform={build.platform}"] if build.platform else []
    return [*command, f"--iidfile={folder / 'id'}"]


def _result(build: Build, folder: Path) -> str:
    if build.has_many_platforms:
        return str(json.loads((folder / "metadata").read_bytes())["containerimage.digest"])
    return (folder / "id").read_text().strip()


def docker() -> str:
    """Return the path of Docker's command line.

    Raises:
        UserError: It is not on PATH.
    """
    if (program := shutil.which("docker")) is None:
        raise UserError("the docker command is not on PATH", remedy=f"Install Docker: {failures.INSTALL}")
    return program


def buildkit() -> tuple[str, str]:
    """Return the version and the command of the BuildKit client.

    Raises:
        UserError: The docker command is missing, or has no BuildKit.
    """
    program = docker()
    if version := _version(program, "buildx", "version"):
        return version, f"{program} buildx"
    version = _version(program, "--version").partition("version ")[2].partition(",")[0]
    # The client was part of the docker command until version 23.
    if not version.partition(".")[0].isdecimal() or int(version.partition(".")[0]) >= 23:
        raise UserError("this machine's docker command has no BuildKit", where=program, remedy=_INSTALL)
    return version, program


@cache
def _version(program: str, *command: str) -> str:
    with suppress(subprocess.TimeoutExpired):
        ran = subprocess.run(
            [program, *command], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
        return ran.stdout.strip() if ran.returncode == 0 else ""
    return ""


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """Start a command, and wait for it after the block; end it after an error or BUILD_SECONDS."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = threading.Timer(BUILD_SECONDS, process.kill)
    deadline.daemon = True
    deadline.start()
    try:
        yield process
        process.wait()
    finally:
        deadline.cancel()
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _send(context: Context, stream: IO[bytes], errors: list[SymphonyError]) -> None:
    """Write the context to the builder, which may have ended."""
    with suppress(BrokenPipeError), stream:
        try:
            for chunk in archive(context):
                stream.write(chunk)
        except SymphonyError as error:
            errors.append(error)
        except FileNotFoundError as error:
            what = f"{error.filename} was removed while the image was built"
            errors.append(SymphonyError(what, remedy="Run the command again"))


class _Steps:
    """Parses the output of a build."""

    def __init__(self, dockerfile: str, report: OnProgress | None, log: Callable[[str], None] | None) -> None:
        self._dockerfile = dockerfile
        self._report = report
        self._log = log
        self._names: dict[str, str] = {}
        self._output: dict[str, list[str]] = {}
        self._failed = ""
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Parse a line; report the start of a step."""
        line = _COLOUR.sub("", line)
        if self._log is not None:
            self._log(line)
        match = _LINE.fullmatch(line)
        if match is None:
            self._lines = [*self._lines, line][-_MAX_LINES:]
            return
        number, text = match.groups()
        if output := _OUTPUT.fullmatch(text):
            step_output = self._output.setdefault(number, [])
            step_output.append(output[1].rstrip())
            del step_output[:-_MAX_LINES]
        elif text.startswith("ERROR"):
            self._failed = number
        elif not _STEP_ENDED.fullmatch(text) and number not in self._names and not text.startswith("sha256:"):
            self._names[number] = text
            if self._report is not None and (step := _STEP.fullmatch(text)):
                name = step[3] if len(step[3]) <= _STEP_LENGTH else f"{step[3][: _STEP_LENGTH - 1]}…"
                self._report(f"step {step[1]}/{step[2]}: {name}", 0, 0)

    def failure(self, host: str) -> SymphonyError:
        """Return the error of a build that failed."""
        name = self._names.get(self._failed, "")
        step = _STEP.fullmatch(name)
        lines = [line for line in self._lines if line.strip()]
        reason = next((line for line in reversed(lines) if "ERROR" in line or "error" in line), "")
        return failures.build_error(
            reason or (lines[-1] if lines else "the docker command ended"),
            step[3] if step else name,
            [line for line in self._output.get(self._failed, []) if line],
            self._dockerfile,
            host,
        )
