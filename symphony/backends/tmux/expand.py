"""Registers the tmux resources of a plan, one Session and one Window a process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import pulumi

from symphony.backends import local_commands
from symphony.backends.expand import Components, Context, Facts
from symphony.backends.supervision import declaration
from symphony.backends.tmux import render
from symphony.backends.tmux.settings import notify_of, server_of
from symphony.backends.tmux.target import target as target
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import wanted_ports
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux import experiment_folder, names
from symphony_tmux.provider import Session, Window
from symphony_tmux.resource import changes


@dataclass(frozen=True)
class Prepared:
    """The inputs of the session and of each window, by the path of its process."""

    plan: Plan
    session: dict[str, Any]
    windows: dict[str, dict[str, Any]]


def image_registry(context: Context) -> str:
    """Return no registry: this backend runs no images."""
    return ""


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Prepared:
    """Return the inputs of the resources."""
    server = server_of(context)
    fixed = [service for service, port in wanted_ports(spec).items() if port is not None]
    grace = context.settings.grace
    supervision = declaration(plan, notify_of(context))
    session = render.session(plan, context.owner, server, grace, fixed, spec.port_range, supervision)
    for kind in experiment_folder.KINDS:
        session[kind] = [str(local_commands.resolved(file, context.folder)) for file in session[kind]]
    folders = [
        experiment_folder.files_folder(server, plan.physical_name, kind) for kind in experiment_folder.KINDS
    ]
    key = local_commands.digest_key() if any(each.secret_env for each in plan.processes) else b""
    windows: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = local_commands.resolved(process.start_dir or "", context.folder)
        places = map(str, (start, context.folder, *folders))
        windows[process.path] = render.window(plan, process, session, *places, key=key)
    return Prepared(plan, session, windows)


def facts(prepared: Prepared) -> dict[str, Facts]:
    """Return what each component tells beside its plan."""
    shared = ("services", "secret_digests")
    return {
        path: {"fingerprint": changes.fingerprint(window), **{name: window[name] for name in shared}}
        for path, window in prepared.windows.items()
    }


def expand(prepared: Prepared, context: Context, components: Components) -> None:
    """Register the session, and a window for each process."""
    session = Session(
        prepared.plan.physical_name,
        **prepared.session,
        opts=pulumi.ResourceOptions(parent=components.experiment),
    )
    # Also when the engine replaces the window: the old process would be taken for the new one.
    shared = pulumi.ResourceOptions(depends_on=[session], deleted_with=session, delete_before_replace=True)
    windows: dict[str, Window] = {}
    for process in _in_order(prepared.plan):
        # If both restart, the process that is waited for does so first: its previous end does not count.
        before = [windows[wait.path] for wait in process.waits_for]
        options = pulumi.ResourceOptions(parent=components.processes[process.path], depends_on=before)
        secret_env = {name: secret.reveal() for name, secret in process.secret_env.items()}
        windows[process.path] = Window(
            process.path,
            **prepared.windows[process.path],
            secret_env=secret_env,
            opts=pulumi.ResourceOptions.merge(shared, options),
        )
    if "supervision" in prepared.session:
        options = pulumi.ResourceOptions(parent=components.experiment)
        inputs = render.supervisor(prepared.session, str(context.folder))
        Window(names.SUPERVISOR, **inputs, opts=pulumi.ResourceOptions.merge(shared, options))


def _in_order(plan: Plan) -> Iterator[PlannedProcess]:
    """Yield every process after those that it waits for."""
    after = {process.path: {wait.path for wait in process.waits_for} for process in plan.processes}
    by_path = {process.path: process for process in plan.processes}
    return map(by_path.__getitem__, TopologicalSorter(after).static_order())


def manifests(prepared: Prepared) -> tuple[()]:
    """tmux has no manifests."""
    return ()
