"""Finds the Pulumi engine on this machine and its version."""

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec

from symphony import files, paths
from symphony.errors import SymphonyError

VERSION = "3.274.1"
OLDEST = (3, 259, 0)
PARTS = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python")
DEADLINE = 20.0


class Engine(msgspec.Struct, frozen=True):
    """A complete engine: the command line with the Python language host beside it or on PATH."""

    pulumi: Path
    source: str

    @property
    def folder(self) -> Path:
        return self.pulumi.parent


def find() -> Engine | None:
    """Return the engine on PATH, else in symphony's cache, else in $PULUMI_HOME, by default ~/.pulumi."""
    if (program := shutil.which("pulumi")) and is_complete(Path(program).parent):
        return Engine(Path(program), "PATH")
    for source, folder in (("cache", cache_folder() / "bin"), ("installer", paths.pulumi_home() / "bin")):
        if is_complete(folder):
            return Engine(folder / "pulumi", source)
    return None


def require() -> Engine:
    """Return the engine; raise SymphonyError if it is missing or too old."""
    engine = find()
    if engine is None:
        raise SymphonyError("the Pulumi engine is not installed", remedy="Run `symphony setup` to install it")
    check_age(engine)
    return engine


def is_complete(folder: Path) -> bool:
    """Return whether every part of the engine is in the folder or, where Pulumi looks too, on PATH."""
    if not os.access(folder / "pulumi", os.X_OK):
        return False
    return all(os.access(folder / part, os.X_OK) or shutil.which(part) for part in PARTS[1:])


def cache_folder() -> Path:
    """Return the folder into which `symphony setup` installs the engine; its programs are in `bin`."""
    return paths.cache() / f"pulumi-{VERSION}"


def version(engine: Engine) -> tuple[int, int, int]:
    """Return the version of the command line; it is cached by file, because asking starts a process."""
    stat = engine.pulumi.stat()
    key = f"{engine.pulumi.resolve()} {stat.st_size} {stat.st_mtime_ns}"
    cached = paths.cache() / f"engine-version-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with suppress(OSError, ValueError):
        return _numbers(cached.read_text())
    text = _ask_version(engine)
    # If the cache cannot be written, each run asks.
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        files.replace(cached, text.encode())
    return _numbers(text)


def check_age(engine: Engine) -> None:
    """Raise SymphonyError if the engine is too old."""
    if version(engine) < OLDEST:
        installed, oldest = (".".join(map(str, numbers)) for numbers in (version(engine), OLDEST))
        raise SymphonyError(
            f"pulumi {installed} is too old: symphony needs {oldest} or newer",
            where=str(engine.pulumi),
            remedy="Update it, or remove it from PATH and from ~/.pulumi, then run `symphony setup`",
        )


def _ask_version(engine: Engine) -> str:
    env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    command = [engine.pulumi, "version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=env, check=True)
        _numbers(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise not_started(engine.pulumi) from error
    return done.stdout


def not_started(pulumi: Path, reason: str | None = None) -> SymphonyError:
    """Return the error of an engine that does not start."""
    what = f"pulumi does not start: {reason}" if reason else "pulumi does not start"
    return SymphonyError(what, where=str(pulumi), remedy="Remove it and run `symphony setup`")


def _numbers(text: str) -> tuple[int, int, int]:
    """Return the numbers of `v3.259.0`; raise ValueError if there are none."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2]), int(match[3])
