"""Capabilities of tmux on this machine for an experiment, and the reasons why it would refuse it."""

from __future__ import annotations

from symphony.backends import local_commands, local_files
from symphony.backends.expand import Context
from symphony.backends.tmux import validation
from symphony.backends.tmux.backend import BACKEND
from symphony.backends.tmux.settings import server_of
from symphony.plan.services import wanted_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony_tmux import experiment_folder, leases
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import RESERVED, search_path

HOST = "127.0.0.1"


def target(spec: ExperimentSpec, context: Context) -> Target:
    """Return what tmux on this machine can do for the experiment, with the ports it would get."""
    path = search_path(launch_file.caller())
    # The plan only reads them; the session leases them.
    leased = leases.lease(context.owner, wanted_ports(spec), False, spec.port_range)
    return Target(
        backend="tmux",
        physical_name=context.physical_name,
        starts="command",
        supports=BACKEND.settings,
        one_host=True,
        host_of=HOST,
        bind_host=HOST,
        gpus=_gpus(spec),
        ports=leased.ports,
        taken=leased.taken,
        unreadable=local_commands.unusable(spec, context.folder),
        unstartable=local_commands.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        problems=validation.check(spec, context.owner, context.physical_name, server_of(context)),
        remarks=tuple(local_commands.missing_programs(spec, context.folder, path)),
        changed_files=_changed_files(spec, server_of(context), context.physical_name),
    )


def _gpus(spec: ExperimentSpec) -> int:
    """Return the number of GPUs of this machine, where the experiment asks for any."""
    if not any(process.resource_limit.gpu for _, process in spec.members()):
        return 0
    # Imported here: few experiments need it.
    from symphony_tmux import gpus

    return len(gpus.devices())


def _changed_files(spec: ExperimentSpec, server: str, session: str) -> tuple[str, ...]:
    """Return the secret and config files that changed since the experiment was started."""
    changes: list[str] = []
    for kind, files in (("secret", spec.secrets), ("config", spec.configs)):
        home = experiment_folder.files_folder(server, session, f"{kind}s")
        if home.is_dir():
            copies = {copy.name: experiment_folder.content(copy) for copy in home.iterdir()}
            changes += local_files.changes(kind, files, copies)
    return tuple(changes)
