"""Makes the tmux resources of a plan, one Session and one Window a process."""

from __future__ import annotations

from typing import Any

import pulumi

from symphony.backends.expand import Components, Context
from symphony.backends.tmux import local_files, render, validation
from symphony.backends.tmux.prepare import prepare as prepare
from symphony.backends.tmux.settings import server_of
from symphony.backends.tmux.target import target as target
from symphony.plan.plan import Plan
from symphony_tmux.resource.resources import Session, Window


def image_registry(context: Context) -> str:
    """It runs no images."""
    return ""


def expand(prepared: Plan, context: Context, components: Components) -> dict[str, dict[str, Any]]:
    """Make the session and a window for each process; return the inputs of each window by its path."""
    plan, server = prepared, server_of(context)
    folders = local_files.folders(server, plan.launched_as)
    session = render.session(plan, context.owner, server, context.settings.grace)
    owner = Session(plan.launched_as, **session, opts=_options(components.experiment))
    key = local_files.digest_key() if any(each.secret_env for each in plan.processes) else b""
    rendered: dict[str, dict[str, Any]] = {}
    for process in plan.processes:
        start = validation.resolved(process.start_dir or "", context.folder)
        inputs = render.window(plan, process, session, str(start), *map(str, folders), key=key)
        options = _options(components.processes[process.path])
        options.depends_on = [owner]
        options.deleted_with = owner
        # Also where the engine is told to replace it: what still ran would be taken for the new one.
        options.delete_before_replace = True
        secrets = {name: each.reveal() for name, each in process.secret_env.items()}
        Window(process.path, **inputs, secret_env=secrets, opts=options)
        rendered[process.path] = inputs
    return rendered


def manifests(prepared: Plan) -> tuple[()]:
    """tmux has no manifests."""
    return ()


def _options(parent: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(parent=parent)
