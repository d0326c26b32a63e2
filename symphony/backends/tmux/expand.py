"""Makes the tmux resources of a plan, one Session and one Window a process; components call it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi

from symphony.backends.expand import Components, Context
from symphony.backends.tmux import local_files, render, validation
from symphony.errors import UserError
from symphony.paths import DEFAULT_SERVER
from symphony.plan.build import build_plan
from symphony.plan.plan import Plan
from symphony.plan.services import port_range, wanted_ports
from symphony.plan.target import Target
from symphony.plan.unused import supported_by
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux.ports import leases
from symphony_tmux.processes import launch
from symphony_tmux.processes.environment import RESERVED, search_path
from symphony_tmux.resource.resources import Session, Window

HOST = "127.0.0.1"
DEFAULT_GRACE = 5.0


def target(spec: ExperimentSpec, context: Context) -> Target:
    """What tmux on this machine can do for the experiment, with the ports it would get."""
    server = context.setting("server") or DEFAULT_SERVER
    objections = validation.objections(spec, context.owner, context.launched_as, server)
    return replace(_target(spec, context, record=False), objections=objections)


def expand(
    plan: Plan, spec: ExperimentSpec, context: Context, components: Components
) -> dict[str, dict[str, Any]]:
    """Make the session and a window for each process; return the inputs of each window by its path."""
    server = context.setting("server") or DEFAULT_SERVER
    kinds = (local_files.SECRETS, local_files.CONFIGS)
    folders = [local_files.folder(server, plan.launched_as, kind) for kind in kinds]
    if not context.dry_run:
        # Now the ports are really ours: one that was lost since the plan was made is another port.
        final = _target(spec, context, record=True)
        plan = build_plan(spec, final)
        local_files.copy(plan.secrets, folders[0])
        local_files.copy(plan.configs, folders[1])
    session = render.session(plan, context.owner, server, _grace(context))
    owner = Session(plan.launched_as, **session, opts=_options(components.experiment))
    rendered: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = validation.resolved(process.start_dir or "", context.folder)
        inputs = render.window(plan, process, session, str(start), *map(str, folders))
        options = _options(components.processes[process.path])
        options.depends_on = [owner]
        options.deleted_with = owner
        Window(process.path, **inputs, opts=options)
        rendered[process.path] = inputs
    return rendered


def _target(spec: ExperimentSpec, context: Context, *, record: bool) -> Target:
    leased = leases.lease(context.owner, wanted_ports(spec), record, port_range(spec))
    return Target(
        backend="tmux",
        launched_as=context.launched_as,
        starts="command",
        supports=supported_by("tmux"),
        one_host=True,
        host_of=HOST,
        bind_host=HOST,
        ports=leased.ports,
        taken=leased.taken,
        unreadable=validation.unusable(spec, context.folder),
        unstartable=validation.unstartable(spec, context.folder, search_path(launch.caller())),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
    )


def _grace(context: Context) -> float:
    said = context.setting("grace")
    try:
        grace = float(said) if said else DEFAULT_GRACE
    except ValueError:
        grace = -1.0
    if not 0 <= grace <= 600:
        raise UserError(f"must be 0-600 seconds, got {said}", where="symphony:grace")
    return grace


def _options(parent: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent)
