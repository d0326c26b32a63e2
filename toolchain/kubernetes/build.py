"""Builds the cluster's programs from the Go modules in `modules/`, once, into the user's cache; for `up`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolchain.kubernetes.calls import ToolchainError, run
from toolchain.kubernetes.layout import cache_folder

MODULES = Path(__file__).parent / "modules"
DEADLINE = 3600
_VERSION = "k8s.io/component-base/version"
# Without the version the API server calls itself v0.0.0 and clients refuse features by it.
_STAMP = f"-s -w -X {_VERSION}.gitVersion=v1.34.0 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34"


@dataclass(frozen=True)
class Module:
    """One Go module of ours and the programs its `tool` lines name."""

    name: str
    programs: tuple[str, ...]
    flags: tuple[str, ...] = ("-trimpath", "-ldflags=-s -w")
    built_as: str = ""  # what Go calls the program when that is not its name
    origin: str = ""  # the module that has the files
    files: tuple[str, ...] = ()  # what is kept beside the programs


# Runs only while a test needs it; see job_set.py.
JOB_SET = Module(
    "jobset",
    ("jobset",),
    origin="sigs.k8s.io/jobset",
    files=(
        "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "config/components/webhook/manifests.yaml",
    ),
)
ALL = (
    Module("etcd", ("etcd",), built_as="server"),
    Module(
        "kubernetes",
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
        ("-trimpath", f"-ldflags={_STAMP}"),
    ),
    Module("coredns", ("coredns",)),
    Module("kwok", ("kwok",)),
    Module("pause", ("pause",)),
    JOB_SET,
)


def programs(say: Callable[[str], None]) -> dict[str, Path]:
    """Every program by name, built where the cache lacks it."""
    result: dict[str, Path] = {}
    for place, module in enumerate(ALL, 1):
        folder = cached(module)
        if not folder.is_dir():
            _build(module, folder, f"{module.name} ({place} of {len(ALL)})", say)
        result.update({name: folder / name for name in module.programs})
    return result


def possible() -> bool:
    """Whether all is built, or can be."""
    if all(cached(module).is_dir() for module in ALL):
        return True
    try:
        return bool(go_program())
    except ToolchainError:
        return False


def cached(module: Module) -> Path:
    """Where the programs of this module belong; the name changes with anything that changes them."""
    digest = hashlib.sha256()
    for file in sorted((MODULES / module.name).iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    digest.update("\0".join((*module.flags, *module.files)).encode())
    return cache_folder() / f"{module.name}-{digest.hexdigest()[:16]}"


def _build(module: Module, folder: Path, title: str, say: Callable[[str], None]) -> None:
    go = go_program()
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".building-{module.name}-", dir=folder.parent))
    try:
        _compile(go, module, scratch, title, say)
        if module.built_as:
            (scratch / module.built_as).rename(scratch / module.programs[0])
        if module.files:
            _keep_files(go, module, scratch)
        lacking = [name for name in module.programs if not (scratch / name).is_file()]
        if lacking:
            raise ToolchainError(f"building {module.name} made no {', '.join(lacking)}")
        scratch.chmod(0o755)
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another build of the same was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _keep_files(go: str, module: Module, target: Path) -> None:
    where = ["env", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local", "GOWORK=off"]
    there = [go, "-C", MODULES / module.name, "list", "-m", "-f", "{{.Dir}}", module.origin]
    origin = Path(run([*where, *there]).strip())
    for file in module.files:
        shutil.copyfile(origin / file, target / Path(file).name)


def _compile(go: str, module: Module, target: Path, title: str, say: Callable[[str], None]) -> None:
    source = MODULES / module.name
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    started = time.monotonic()
    say(f"building {title}: fetching its sources")
    total = len(_listing(go, source, environment))
    argv = ["nice", "-n", "15", go, "build", "-v", *module.flags, "-o", f"{target}/", "tool"]
    with subprocess.Popen(
        argv, cwd=source, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as builder:
        deadline = threading.Timer(DEADLINE, builder.kill)
        deadline.start()
        try:
            tail = _follow(builder, title, total, started, say)
        except BaseException:
            builder.kill()
            raise
        finally:
            deadline.cancel()
    if builder.returncode:
        raise ToolchainError(f"building {module.name} failed: {' / '.join(tail[-2:])}")
    say(f"building {title}: done in {time.monotonic() - started:.0f} s")


def _follow(
    builder: subprocess.Popen[str], title: str, total: int, started: float, say: Callable[[str], None]
) -> list[str]:
    """Count the packages as the compiler names them; say how far it is every few seconds."""
    assert builder.stderr is not None
    tail: list[str] = []
    last = started
    for compiled, line in enumerate(builder.stderr, 1):
        tail = [*tail[-20:], line.strip()]
        if time.monotonic() - last >= 10:
            last = time.monotonic()
            say(f"building {title}: {compiled} of at most {total} packages, {last - started:.0f} s")
    return tail


def _listing(go: str, source: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [go, "list", "-deps", "tool"],
        cwd=source, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ToolchainError(f"cannot fetch the sources of {source.name}: {done.stderr.strip()[-300:]}")
    return done.stdout.split()


def go_program() -> str:
    """Where Go is; ToolchainError: nowhere, or too old."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go:
        raise ToolchainError("Go >= 1.24 is needed to build the cluster and is not installed")
    version = run([go, "env", "GOVERSION"]).strip().removeprefix("go")
    if tuple(int(part) for part in version.split(".")[:2]) < (1, 24):
        raise ToolchainError(f"Go >= 1.24 is needed to build the cluster; {go} is {version}")
    return go
