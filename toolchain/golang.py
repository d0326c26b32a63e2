"""Builds programs from the Go modules of this repository into the user's cache, once for each version."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import cache_folder

OLDEST = (1, 26)
DEADLINE = 3600.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and the programs that its `tool` lines name."""

    folder: Path
    programs: tuple[str, ...]
    flags: tuple[str, ...] = ("-trimpath", "-ldflags=-s -w")
    built_as: str = ""  # the name that Go gives to the program, if it differs

    @property
    def name(self) -> str:
        return self.folder.name


def programs(module: Module, say: Say, title: str = "") -> Path:
    """Return the folder with the programs of the module; build them if they are not in the cache."""
    folder = cached(module)
    if not folder.is_dir():
        with replacing(folder) as scratch:
            compile_into(scratch, module, say, title)
    return folder


def cached(module: Module) -> Path:
    """Return the folder for the module's programs, built or not; its name digests sources and flags."""
    digest = hashlib.sha256()
    for file in sorted(path for path in module.folder.rglob("*") if path.is_file()):
        name = file.relative_to(module.folder).as_posix()
        digest.update(name.encode() + b"\0" + file.read_bytes())
    digest.update("\0".join(module.flags).encode())
    return cache_folder() / f"{module.name}-{digest.hexdigest()[:16]}"


def compiler() -> str:
    """Return the path of Go; raise ToolchainError if it is missing or too old."""
    oldest = ".".join(map(str, OLDEST))
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        raise ToolchainError(f"Go is not installed, and {oldest} or newer is needed (go.dev/dl)")
    version = run([go, "env", "GOVERSION"]).strip().removeprefix("go")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ToolchainError(f"Go {oldest} or newer is needed (go.dev/dl); {go} is {version}")
    return go


@contextmanager
def replacing(folder: Path) -> Generator[Path]:
    """Yield an empty folder, which becomes `folder` after the block unless that exists by then."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".building-{folder.name}-", dir=folder.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():  # if it is one, another build was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def compile_into(target: Path, module: Module, say: Say, title: str = "") -> None:
    """Compile the programs of the module into an existing folder."""
    go, title = compiler(), title or module.name
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    started = time.monotonic()
    say(f"building {title}")
    argv = ["nice", "-n", "15", go, "build", "-v", *module.flags, "-o", f"{target}/", "tool"]
    with subprocess.Popen(
        argv, cwd=module.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as builder:
        deadline = threading.Timer(DEADLINE, builder.kill)
        deadline.start()
        try:
            last_lines = _follow(builder, title, started, say)
        except BaseException:
            builder.kill()
            raise
        finally:
            deadline.cancel()
    if builder.returncode:
        raise ToolchainError(f"building {module.name} failed: {' / '.join(last_lines[-2:])}")
    if module.built_as:
        (target / module.built_as).rename(target / module.programs[0])
    missing = [name for name in module.programs if not (target / name).is_file()]
    if missing:
        raise ToolchainError(f"the build of {module.name} made no {', '.join(missing)}")
    say(f"building {title}: done in {time.monotonic() - started:.0f} s")


def _follow(builder: subprocess.Popen[str], title: str, started: float, say: Say) -> list[str]:
    """Report the number of compiled packages every ten seconds; return the last lines of the compiler."""
    assert builder.stderr is not None
    last_lines: list[str] = []
    reported = started
    for compiled, line in enumerate(builder.stderr, 1):
        last_lines = [*last_lines[-20:], line.strip()]
        if time.monotonic() - reported >= 10:
            reported = time.monotonic()
            say(f"building {title}: {compiled} packages, {reported - started:.0f} s")
    return last_lines
