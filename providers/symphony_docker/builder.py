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

# A longer build counts as hanging.
BUILD_SECONDS = 4 * 3600
_VERSION_SECONDS = 10
_INSTALL = "Install Docker's buildx plugin: see docs.docker.com/go/buildx"
# Lines of `--progress=plain`: `#7 [2/4] RUN make`, `#7 1.23 output`, `#7 DONE 0.3s`, `#7 ERROR: reason`.
_LINE = re.compile(r"#(\d+) (.*)")
_STEP = re.compile(r"\[(?:\S+ +)?(\d+)/(\d+)\] (.*)")
_OUTPUT = re.compile(r"\d+\.\d+ (.*)")
_ENDED = re.compile(r"(DONE|CACHED|CANCELED|ERROR)\b.*")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_KEPT_LINES = 2000
_STEP_LENGTH = 60
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Build:
    """One build: the context, the name of the image, and the options of `docker build`.

    platform: of the image, or several with commas between them.
    secrets:  id -> file, for `RUN --mount=type=secret,id=...`.
    labels:   those that the image gets.
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
        """Return whether the image is an index, which a registry can hold and the engine's store cannot."""
        return "," in self.platform


def build(build: Build, host: str, tell: Tell | None = None, log: Callable[[str], None] | None = None) -> str:
    """Build an image and return its id; push one for several platforms, and return its digest.

    Args:
        build: The image and its context.
        host: Address of the Docker engine.
        tell: Called with the step, and the bytes done of those to do where these are known.
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
            failed: list[SymphonyError] = []
            sending = threading.Thread(target=_send, args=(build.context, process.stdin, failed), daemon=True)
            sending.start()
            steps = _Steps(build.context.dockerfile, tell, log)
            for line in process.stdout:
                steps.add(line.decode(errors="replace").rstrip("\n"))
            sending.join()
        if failed:
            raise failed[0]
        if process.returncode:
            raise steps.failure(host)
        return _result(build, Path(folder))


def _command(build: Build, folder: Path) -> list[str]:
    # buildx knows the builders that `docker buildx create` made, and remote ones.
    has_buildx = bool(_version(program := docker(), "buildx", "version"))
    words = [program, "buildx", "build", "--load"] if has_buildx else [program, "build"]
    if build.has_many_platforms:
        if not has_buildx:
            what = "images for several platforms need Docker's buildx plugin, which is not installed"
            raise UserError(what, where=program, remedy=_INSTALL)
        words = [program, "buildx", "build", "--push", f"--metadata-file={folder / 'metadata'}"]
    words += ["--progress=plain", f"--file={build.context.dockerfile}"]
    words += [f"--tag={build.reference}"] if build.reference else []
    words += [f"--build-arg={name}={text}" for name, text in build.build_args.items()]
    words += [f"--label={name}={text}" for name, text in build.labels.items()]
    words += [f"--secret=id={name},src={file}" for name, file in build.secrets.items()]
    words += [f"--target={build.target}"] if build.target else []
    words += [f"--platform={build.platform}"] if build.platform else []
    return [*words, f"--iidfile={folder / 'id'}"]


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
    """Return the version and the place of the BuildKit client that builds images here.

    Raises:
        UserError: The docker command is missing, or has none.
    """
    program = docker()
    if version := _version(program, "buildx", "version"):
        return version, f"{program} buildx"
    version = _version(program, "--version").partition("version ")[2].partition(",")[0]
    # The client was a part of the command until version 23.
    if not version.partition(".")[0].isdecimal() or int(version.partition(".")[0]) >= 23:
        raise UserError("this machine's docker command has no BuildKit", where=program, remedy=_INSTALL)
    return version, program


@cache
def _version(program: str, *words: str) -> str:
    with suppress(subprocess.TimeoutExpired):
        ran = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
        return ran.stdout.strip() if ran.returncode == 0 else ""
    return ""


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """Start the command; end it at the end of the block, or after BUILD_SECONDS."""
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


def _send(context: Context, stream: IO[bytes], failed: list[SymphonyError]) -> None:
    """Write the context; ignore the error if the builder has ended."""
    with suppress(BrokenPipeError), stream:
        try:
            for chunk in archive(context):
                stream.write(chunk)
        except SymphonyError as error:
            failed.append(error)


class _Steps:
    """The steps of a build, read from its output."""

    def __init__(self, dockerfile: str, tell: Tell | None, log: Callable[[str], None] | None) -> None:
        self._dockerfile = dockerfile
        self._tell = tell
        self._log = log
        self._names: dict[str, str] = {}
        self._output: dict[str, list[str]] = {}
        self._failed = ""
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Record a line of the output, and report the start of a step."""
        line = _COLOUR.sub("", line)
        if self._log is not None:
            self._log(line)
        match = _LINE.fullmatch(line)
        if match is None:
            self._lines = [*self._lines, line][-_KEPT_LINES:]
            return
        number, text = match.groups()
        if output := _OUTPUT.fullmatch(text):
            kept = self._output.setdefault(number, [])
            kept.append(output[1].rstrip())
            del kept[:-_KEPT_LINES]
        elif text.startswith("ERROR"):
            self._failed = number
        elif not _ENDED.fullmatch(text) and number not in self._names and not text.startswith("sha256:"):
            self._names[number] = text
            if self._tell is not None and (step := _STEP.fullmatch(text)):
                name = step[3] if len(step[3]) <= _STEP_LENGTH else f"{step[3][: _STEP_LENGTH - 1]}…"
                self._tell(f"step {step[1]}/{step[2]}: {name}", 0, 0)

    def failure(self, host: str) -> SymphonyError:
        """Return the reason why the build ended without an image."""
        name = self._names.get(self._failed, "")
        step = _STEP.fullmatch(name)
        said = [line for line in self._lines if line.strip()]
        reason = next((line for line in reversed(said) if "ERROR" in line or "error" in line), "")
        return failures.of_build(
            reason or (said[-1] if said else "the docker command ended"),
            step[3] if step else name,
            [line for line in self._output.get(self._failed, []) if line],
            self._dockerfile,
            host,
        )
