"""`symphony doctor`: checks the prerequisites of this machine."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping

import typer

from symphony import paths
from symphony.backends import registry
from symphony.backends.registry import Finding, finding_or_error
from symphony.cli import arguments, screen
from symphony.engine import binary, environment
from symphony.engine.run import start
from symphony.engine.state import file_store
from symphony.errors import SymphonyError
from symphony.operations.images import registries

_SETUP = "symphony setup"


def command(as_json: arguments.AsJson = False) -> None:
    """Check symphony's prerequisites on this machine, and show how to install missing ones.

    Examples:
        symphony doctor
    """
    findings = examine()
    if as_json:
        screen.show_json(findings)
    else:
        screen.show_table(("name", "state", "version", "place, or how to install it"), map(_row, findings))
    raise typer.Exit(0 if is_ready(findings) else 1)


def _row(finding: Finding) -> tuple[str, str, str, str]:
    state = "ok" if finding.there else "missing" if finding.needed else "-"
    return finding.name, state, finding.version, finding.place if finding.there else finding.get


def examine() -> list[Finding]:
    """Return all findings; required prerequisites come first."""
    # The default backend's findings come last.
    backends = [finding for row in reversed(registry.every()) for finding in row.prerequisites.findings()]
    return [
        Finding("python", True, platform.python_version(), sys.executable),
        *(finding for finding in backends if finding.needed),
        _engine(),
        _state(),
        _secrets(),
        *(finding for finding in backends if not finding.needed),
        _isolation(),
        *_docker(),
    ]


def is_ready(findings: list[Finding]) -> bool:
    return all(finding.there for finding in findings if finding.needed)


def _engine() -> Finding:
    engine = binary.find()
    if engine is None:
        return Finding("pulumi", False, get=_SETUP)

    def find() -> Finding:
        binary.check_age(engine)
        version = ".".join(map(str, binary.version(engine)))
        return Finding("pulumi", True, version, f"{engine.pulumi} ({engine.source})")

    return finding_or_error("pulumi", _SETUP, find)


def _state() -> Finding:
    url = paths.store_url()
    if not file_store.is_files(url):
        return Finding("state", True, place=url)
    return finding_or_error("state", "export PULUMI_BACKEND_URL=file://FOLDER", lambda: _state_at(url))


def _state_at(url: str) -> Finding:
    folder = file_store.root(url).parent
    if not folder.exists():
        return Finding("state", True, "created by the first `up`", url)
    file_store.prepare()
    mode = folder.stat().st_mode & 0o077
    content = f"{len(file_store.names())} stacks" + (", readable by other users" if mode else "")
    return Finding("state", True, content, url)


def _secrets() -> Finding:
    if variable := next((name for name in environment.PASSPHRASES if name in os.environ), ""):
        return Finding("passphrase", True, "yours", f"${variable}")
    if paths.store_url() != environment.own_store():
        needed = file_store.is_files()
        get = "export PULUMI_CONFIG_PASSPHRASE_FILE=FILE"
        return Finding("passphrase", not needed, get=get, needed=needed)
    if not paths.home().exists():
        return Finding("passphrase", True, "symphony's", "created by the first `up`")
    return finding_or_error(
        "passphrase",
        "",
        lambda: Finding("passphrase", True, "symphony's", str(environment.ensure_passphrase())),
    )


def _isolation() -> Finding:
    """Return whether runs are isolated from other users of this machine."""
    works = start.is_possible()
    # Backends with Pulumi plugins need the network, so their runs cannot be isolated.
    isolated = [row.name for row in registry.every() if not row.plugins]
    others = ", ".join(row.name for row in registry.every() if row.plugins)
    return Finding(
        "isolated runs (optional)",
        works,
        ", ".join(isolated) if works else "",
        f"{others} runs are open to users of this machine: SECURITY.md" if works else "",
        get="see SECURITY.md: other users of this machine can connect to runs",
        needed=False,
    )


def _docker() -> list[Finding]:
    """Return whether images can be built, and pushed to the registries of states and settings."""
    from symphony_docker import builder, image_registry
    from symphony_docker.engine import Engine

    def engine() -> tuple[str, str]:
        docker = Engine()
        return str(docker.facts().get("Version")), docker.address

    states = {
        host: _optional(f"registry {host} (optional)", lambda host=host: ("", image_registry.check(host)))
        for host in registries()
    }
    return [
        _optional("docker engine (optional)", engine),
        _optional("docker build (optional)", builder.buildkit),
        *states.values(),
        _credentials(states),
    ]


def _optional(name: str, find: Callable[[], tuple[str, str]]) -> Finding:
    """Return an optional finding; `find` returns (version, place) or raises SymphonyError."""
    try:
        return Finding(name, True, *find(), needed=False)
    except SymphonyError as error:
        return Finding(name, False, get=error.line, needed=False)


def _credentials(states: Mapping[str, Finding]) -> Finding:
    """Return whether each credential helper is on PATH, and no registry needs a login."""
    from symphony_docker import image_registry

    name = "registry credentials (optional)"
    hosts, programs = image_registry.logins()
    missing = [program for program in programs if not shutil.which(program)]
    unknown = [host for host, state in states.items() if state.place == image_registry.NEEDS_LOGIN]
    if missing or unknown:
        get = f"{missing[0]} is not on PATH" if missing else f"docker login {unknown[0]}"
        return Finding(name, False, get=get, needed=False)
    return Finding(name, True, place=", ".join([*hosts, *programs]) or "no login", needed=False)
