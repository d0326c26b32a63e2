"""The tmux backend's `expand`: registers a Session, and a Window for each process of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from symphony import paths
from symphony.backends import launching, local_commands
from symphony.backends.expand import Components, Context, Facts
from symphony.backends.launching import image_registry as image_registry
from symphony.backends.launching import manifests as manifests
from symphony.backends.supervision import declaration, is_declared
from symphony.backends.tmux import render
from symphony.backends.tmux.settings import settings_of
from symphony.backends.tmux.target import target as target
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import fixed_ports
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux import names
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
    session = render.session(plan, context.owner, server, grace, fixed, spec.port_range, supervision)
    session |= launching.files_of(plan, context)
    files = paths.experiment_folder(server, plan.physical_name)
    key = local_commands.digest_key() if any(process.secret_env for process in plan.processes) else b""
    windows: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = local_commands.resolved(process.start_dir or "", context.folder)
        windows[process.path] = render.window(
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
    session = Session(
        prepared.plan.physical_name,
        **prepared.session,
        opts=pulumi.ResourceOptions(parent=components.experiment),
    )

    def window(
        process: PlannedProcess, secret_env: Mapping[str, str], options: pulumi.ResourceOptions
    ) -> Window:
        return Window(process.path, **prepared.windows[process.path], secret_env=secret_env, opts=options)

    shared = launching.register(prepared.plan, session, components, window)
    if "supervision" in prepared.session:
        options = pulumi.ResourceOptions(parent=components.experiment)
        inputs = render.supervisor(prepared.session, str(context.folder))
        Window(names.SUPERVISOR, **inputs, opts=pulumi.ResourceOptions.merge(shared, options))
