"""The offer of tmux on this machine to an experiment, and what it would refuse."""

from __future__ import annotations

from symphony.backends.expand import Context
from symphony.backends.tmux import local_files, validation
from symphony.backends.tmux.backend import BACKEND
from symphony.backends.tmux.settings import server_of
from symphony.plan.services import wanted_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux.ports import leases
from symphony_tmux.processes.launch import launch_file
from symphony_tmux.processes.launch.environment import RESERVED, search_path

HOST = "127.0.0.1"


def target(spec: ExperimentSpec, context: Context) -> Target:
    """Return what tmux on this machine can do for the experiment, with the ports it would get."""
    path = search_path(launch_file.caller())
    # Only looked up: the session leases them.
    leased = leases.lease(context.owner, wanted_ports(spec), False, spec.port_range)
    return Target(
        backend="tmux",
        launched_as=context.launched_as,
        starts="command",
        supports=BACKEND.settings,
        one_host=True,
        host_of=HOST,
        bind_host=HOST,
        ports=leased.ports,
        taken=leased.taken,
        unreadable=validation.unusable(spec, context.folder),
        unstartable=validation.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        problems=validation.check(spec, context.owner, context.launched_as, server_of(context)),
        remarks=validation.missing_programs(spec, context.folder, path),
        changed_files=local_files.changed(spec, server_of(context), context.launched_as),
    )
