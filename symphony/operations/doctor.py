"""Looks for what symphony needs here and says what gets what is missing; cli/doctor.py prints it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from symphony import paths
from symphony.engine import binary, passphrase, plugins, store, tmux
from symphony.errors import SymphonyError

_SETUP = "symphony setup"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: is it there, which one, and the one command that gets it when not.

    needed: without it no experiment runs; the others are for one backend or for comfort.
    """

    name: str
    there: bool
    version: str = ""
    place: str = ""
    get: str = ""
    needed: bool = True


def examine() -> list[Finding]:
    """All findings, the needed ones first."""
    return [
        Finding("python", True, platform.python_version(), os.path.realpath("/proc/self/exe")),
        _tmux(),
        _engine(),
        _state(),
        _secrets(),
        _extra("kubernetes"),
        _plugin(),
        _kubeconfig(),
        _extra("gcp"),
        _perl(),
        _docker(),
    ]


def is_ready(findings: list[Finding]) -> bool:
    return all(finding.there for finding in findings if finding.needed)


def _tmux() -> Finding:
    place = shutil.which("tmux")
    if place is None:
        return Finding("tmux", False, get=tmux.command())
    return _guarded("tmux", tmux.command(), lambda: _tmux_at(place))


def _tmux_at(place: str) -> Finding:
    version = tmux.version()
    return Finding("tmux", tmux.is_recent(version), version, place, tmux.command())


def _engine() -> Finding:
    engine = binary.find()
    if engine is None:
        return Finding("pulumi", False, get=_SETUP)
    return _guarded("pulumi", _SETUP, lambda: _engine_at(engine))


def _engine_at(engine: binary.Engine) -> Finding:
    binary.check_age(engine)
    version = ".".join(map(str, binary.version(engine)))
    return Finding("pulumi", True, version, f"{engine.pulumi} ({engine.source})")


def _state() -> Finding:
    url = paths.store_url()
    if not store.is_files(url):
        return Finding("state", True, place=url)
    return _guarded("state", "export PULUMI_BACKEND_URL=file://FOLDER", lambda: _state_at(url))


def _state_at(url: str) -> Finding:
    store.prepare()
    mode = store.root(url).parent.stat().st_mode & 0o077
    kind = f"{len(store.names())} stacks" + (", others may read it" if mode else "")
    return Finding("state", True, kind, url)


def _secrets() -> Finding:
    name = next((n for n in passphrase.BY_USER if n in os.environ), "")
    if name:
        return Finding("passphrase", True, "yours", f"${name}")
    if paths.store_url() != passphrase.own_store():
        needed = store.is_files()
        get = "export PULUMI_CONFIG_PASSPHRASE_FILE=FILE"
        return Finding("passphrase", not needed, get=get, needed=needed)
    return _guarded("passphrase", "", lambda: Finding("passphrase", True, "ours", str(passphrase.ensure())))


def _extra(name: str) -> Finding:
    distribution = f"pulumi-{name}"
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        get = f"pip install 'symphony-launch[{name}]'"
        return Finding(f"{name} (optional)", False, get=get, needed=False)
    return Finding(f"{name} (optional)", True, version, distribution, needed=False)


def _plugin() -> Finding:
    """What makes resources on Kubernetes: Pulumi's own plugin, or the stand-in of this repository's tests."""
    name = "kube plugin (optional)"
    try:
        version = importlib.metadata.version("pulumi-kubernetes")
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, get="goes with kubernetes, above", needed=False)
    place = plugins.find("kubernetes", version)
    if place is None:
        return Finding(name, False, get="`symphony up` gets it by itself", needed=False)
    try:
        kind = "a stand-in" if plugins.is_script(place) else version
    except OSError as error:
        return Finding(name, False, get=f"remove {place}: {error.strerror}", needed=False)
    return Finding(name, True, kind, str(place), needed=False)


def _kubeconfig() -> Finding:
    """Read and not tried: a cluster that does not answer would hold up whoever only uses tmux."""
    # Who only uses tmux has none, and does not wait for this to load in any other command.
    from symphony.backends.kubernetes import kubeconfig

    name = "kubeconfig (optional)"
    try:
        place, context = kubeconfig.current()
    except SymphonyError as error:
        get = error.line if kubeconfig.exists() else "export KUBECONFIG=FILE"
        return Finding(name, False, get=get, needed=False)
    return Finding(name, True, f"context {context}" if context else "", place, needed=False)


def _perl() -> Finding:
    place = shutil.which("perl") or ""
    get = "install perl: without it tmux starts no process again and cuts no log"
    return Finding("perl (optional)", bool(place), place=place, get=get, needed=False)


def _docker() -> Finding:
    place = shutil.which("docker") or ""
    get = "see docs.docker.com/engine/install"
    return Finding("docker (optional)", bool(place), place=place, get=get, needed=False)


def _guarded(name: str, get: str, look: Callable[[], Finding]) -> Finding:
    """What look() finds; what it raises is a finding as well."""
    try:
        return look()
    except SymphonyError as error:
        return Finding(name, False, error.what, error.where, get)
