"""The tmux backend's `expand`: registers a Session, and a Window for each process of a plan."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pulumi

from symphony import paths
from symphony.backends import launching, local_commands
from symphony.backends.expand import Components, Context, Facts
from symphony.backends.launching import image_registry as image_registry
from symphony.backends.launching import manifests as manifests
from symphony.backends.supervision import declaration, is_declared
from symphony.backends.tmux.settings import settings_of
from symphony.backends.tmux.target import target as target
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import fixed_ports, used_variables
from symphony.spec.experiment import ExperimentSpec
from symphony.supervision import Declaration
from symphony_tmux import gpus, names
from symphony_tmux.provider import Session, Window
from symphony_tmux.resource import changes


@dataclass(frozen=True)
class Prepared:
    """The resource inputs of the session, and of the windows by process path."""

    plan: Plan
    session: dict[str, Any]
    windows: dict[str, dict[str, Any]]


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the inputs of the resources."""
    settings = settings_of(context)
    server, grace = settings.server, settings.grace
    fixed = [service for service, port in fixed_ports(spec).items() if port is not None]
    is_supervised = is_declared(plan, settings.notify)
    supervision = declaration(plan, context.stack, settings.notify) if is_supervised else None
    session = session_inputs(plan, context.owner, server, grace, fixed, spec.port_range, supervision)
    session |= launching.files_of(plan, context)
    files = paths.experiment_folder(server, plan.physical_name)
    key = local_commands.digest_key() if any(process.secret_env for process in plan.processes) else b""
    windows: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = local_commands.resolved(process.start_dir or "", context.folder)
        windows[process.path] = window_inputs(
            plan, process, session, str(start), str(context.folder), files, key
        )
    return Prepared(plan, session, windows)


def facts(prepared: Prepared) -> dict[str, Facts]:
    """Return the facts of every process, by path."""
    return {
        path: {
            "fingerprint": changes.fingerprint(window),
            "services": window["services"],
            "secret_digests": window["secret_digests"],
        }
        for path, window in prepared.windows.items()
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register the session, and a window for each process."""
    options = pulumi.ResourceOptions(parent=components.experiment)
    inputs = launching.set_inputs(prepared.session)
    session = Session(prepared.plan.physical_name, inputs, options)
    shared = launching.register(prepared.plan, session, components, Window, prepared.windows)
    if "supervision" in prepared.session:
        inputs = supervisor_inputs(prepared.session, str(context.folder))
        Window(names.SUPERVISOR, inputs, pulumi.ResourceOptions.merge(shared, options))


def session_inputs(
    plan: Plan,
    owner: str,
    server: str,
    grace: float,
    fixed_ports: Sequence[str] = (),
    port_range: tuple[int, int] | None = None,
    supervision: Declaration | None = None,
) -> dict[str, Any]:
    """Return the inputs of the experiment's session."""
    supervisors = [names.SUPERVISOR] if supervision is not None else []
    return {
        "name": plan.physical_name,
        "owner": owner,
        "server": server,
        "processes": sorted([*(process.path for process in plan.processes), *supervisors]),
        "services": dict(plan.service_env),
        "ports": {service.declared or service.name: service.port for service in plan.services},
        "fixed_ports": list(fixed_ports),
        "port_range": list(port_range) if port_range else None,
        "secrets": list(plan.secrets),
        "configs": list(plan.configs),
        "grace": grace,
        **({"supervision": msgspec.to_builtins(supervision)} if supervision is not None else {}),
    }


def window_inputs(
    plan: Plan,
    process: PlannedProcess,
    session: Mapping[str, Any],
    start_dir: str,
    folder: str,
    files: Path,
    key: bytes = b"",
) -> dict[str, Any]:
    """Return the inputs of a process's window except secret_env; see launching.process_inputs."""
    inputs = launching.process_inputs(plan, process, start_dir, folder, files, key)
    count = process.resource_limit.gpu
    return {
        **inputs,
        **{name: session[name] for name in ("server", "owner", "grace")},
        "session": session["name"],
        # The variable makes a process wait for GPUs of this machine.
        "env": {**inputs["env"], **({gpus.VARIABLE: str(count)} if count else {})},
        "services": used_variables(plan, process),
        "waits_for": msgspec.to_builtins([*process.waits_for]),
    }


def supervisor_inputs(session: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the inputs of the window of the experiment's supervisor."""
    arguments = (session["server"], session["name"], session["owner"])
    return {
        **{name: session[name] for name in ("server", "owner", "grace")},
        "session": session["name"],
        "path": names.SUPERVISOR,
        "argv": [sys.executable, "-P", "-m", "symphony_tmux.supervisor", *arguments],
        "cwd": folder,
        "restart_policy": "Always",
    }
