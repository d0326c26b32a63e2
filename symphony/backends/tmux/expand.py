"""The tmux backend's `expand`: its limits, and the registration of a Session and a Window a process."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pulumi

from symphony import paths
from symphony.backends import launching, local_commands
from symphony.backends.expand import ComponentInputs, Components, Context
from symphony.backends.launching import image_registry as image_registry
from symphony.backends.launching import manifests as manifests
from symphony.backends.supervision_declaration import declaration, is_declared
from symphony.backends.tmux.backend import BACKEND
from symphony.backends.tmux.settings import settings_of
from symphony.errors import SymphonyError
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.problems import Problem
from symphony.plan.services import fixed_ports, used_variables
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.supervision import Declaration
from symphony_tmux import gpus, leases, names
from symphony_tmux.processes import launch_file, start
from symphony_tmux.processes.environment import RESERVED, search_path
from symphony_tmux.provider import Session, Window
from symphony_tmux.resource import changes
from symphony_tmux.tmux import client, server_limits

HOST = "127.0.0.1"


def limits(spec: ExperimentSpec, context: Context) -> BackendLimits:
    """Return the limits of tmux on this machine, and the experiment's ports and problems."""
    path = search_path(launch_file.caller())
    server = settings_of(context).server
    # Only chosen here: the provider leases them for the session.
    chosen = leases.choose(context.owner, fixed_ports(spec), spec.port_range)
    return BackendLimits(
        backend="tmux",
        physical_name=context.physical_name,
        starts="command",
        supports=BACKEND.settings,
        one_host=True,
        host_of=HOST,
        bind_host=HOST,
        gpus=_gpus(spec),
        ports=chosen.ports,
        refused=chosen.refused,
        unreadable=local_commands.unusable(spec, context.folder),
        unstartable=local_commands.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        problems=(
            *_session_problems(spec, context.owner, context.physical_name, server),
            *_unsupervised(spec),
        ),
        remarks=tuple(
            local_commands.missing_programs(spec, context.folder, path, settings_of(context).notify)
        ),
        changed_files=launching.changed_files(spec, paths.experiment_folder(server, context.physical_name)),
    )


def _gpus(spec: ExperimentSpec) -> int:
    """Return the number of GPUs of this machine; 0 if the experiment asks for none."""
    if not any(process.resource_limit.gpu for _, process in spec.members()):
        return 0
    return len(gpus.devices())


def _unsupervised(spec: ExperimentSpec) -> Iterator[Problem]:
    """Yield a problem for each setting that restarts processes or ends the experiment, if perl is missing."""
    if start.perl():
        return
    for setting in ("primary", "stop_after", "idle_after"):
        if getattr(spec, setting):
            what = f"the experiment has {setting}, for which tmux needs perl on this machine"
            yield Problem(what, f"install perl, or remove {setting}", (spec.at(setting),))
    for owner in (*spec.groups, *spec.processes):
        if owner.pod.restart_policy in ("OnFailure", "Always"):
            owner_name = f"process group {owner.name}" if isinstance(owner, ProcessGroupSpec) else owner.name
            yield Problem(
                f"{owner_name} has a restart policy, for which tmux needs perl on this machine",
                "install perl, or remove the restart policy",
                (owner.at("restart_policy"),),
            )


def _session_problems(spec: ExperimentSpec, owner: str, name: str, server: str) -> tuple[Problem, ...]:
    """Return problems: the session is another experiment's, or the tmux server lacks resources."""
    try:
        listing = client.list_panes(server)
    except SymphonyError:
        # The provider reports it when it starts a process there.
        return ()
    session = listing.session(name)
    if session is not None and session.owner != owner:
        what = f"the tmux session {name} belongs to {paths.owner_label(session.owner, owner)}"
        return (Problem(what, "delete that experiment, or rename this stack", (spec.where,)),)
    count = len(list(spec.members()))
    shortages = (*server_limits.shortages(owner, count, listing), *server_limits.lowered_limits(listing))
    return tuple(Problem(what, remedy, (spec.where,)) for what, remedy in shortages)


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
        start = local_commands.resolve_path(process.start_dir or "", context.folder)
        windows[process.path] = window_inputs(
            plan, process, session, str(start), str(context.folder), files, key
        )
    return Prepared(plan, session, windows)


def component_inputs(prepared: Prepared) -> dict[str, ComponentInputs]:
    """Return the inputs that each process's component has besides its plan, by path."""
    return {
        path: {
            "fingerprint": changes.fingerprint(window),
            "services": window["services"],
            "secret_digests": window["secret_digests"],
        }
        for path, window in prepared.windows.items()
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register session and supervisor under the experiment, and each other window under its process."""
    inputs = launching.without_unset(prepared.session)
    session = Session(context.stack, inputs, launching.experiment_options(prepared.plan, components))
    shared = launching.register(prepared.plan, session, components, Window, prepared.windows)
    if "supervision" in prepared.session:
        inputs = supervisor_inputs(prepared.session, str(context.folder))
        options = pulumi.ResourceOptions(parent=components.experiment)
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
    """Return the inputs of a process's window except secret_env, which launching.register adds."""
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
