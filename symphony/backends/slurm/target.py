"""Capabilities of Slurm for an experiment, and the reasons why it would refuse it."""

from __future__ import annotations

from symphony.backends import local_commands, local_files
from symphony.backends.expand import Context
from symphony.backends.slurm.backend import BACKEND
from symphony.backends.slurm.settings import settings_of, shared_folder
from symphony.plan.services import wanted_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec
from symphony_slurm.folder import Folder, folder_of
from symphony_tmux.processes import launch_file
from symphony_tmux.processes.environment import RESERVED, search_path


def target(spec: ExperimentSpec, context: Context) -> Target:
    """Return what Slurm can do for the experiment; nodes and ports are chosen when the job begins."""
    path = search_path(launch_file.caller())
    folder = folder_of(shared_folder(settings_of(context)), context.launched_as, context.owner)
    return Target(
        backend="slurm",
        launched_as=context.launched_as,
        starts="command",
        supports=BACKEND.settings,
        one_host=False,
        host_of="the-node-of-{service}",
        bind_host="0.0.0.0",
        ports={name: port or 0 for name, port in wanted_ports(spec).items()},
        unreadable=local_commands.unusable(spec, context.folder),
        unstartable=local_commands.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        remarks=tuple(local_commands.missing_programs(spec, context.folder, path)),
        changed_files=_changed_files(spec, folder),
    )


def _changed_files(spec: ExperimentSpec, folder: Folder) -> tuple[str, ...]:
    """Return the secret and config files that changed since the experiment was started."""
    changes: list[str] = []
    for kind, files in (("secret", spec.secrets), ("config", spec.configs)):
        home = folder.place / f"{kind}s"
        if home.is_dir():
            copies = {copy.name: copy.read_bytes() for copy in home.iterdir() if copy.is_file()}
            changes += local_files.changes(kind, files, copies)
    return tuple(changes)
