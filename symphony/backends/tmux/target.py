"""The tmux backend's target: its capabilities, the ports for an experiment, and problems."""

from collections.abc import Iterator

from symphony import paths
from symphony.backends import launching, local_commands
from symphony.backends.expand import Context
from symphony.backends.tmux.backend import BACKEND
from symphony.backends.tmux.settings import settings_of
from symphony.errors import SymphonyError
from symphony.plan.problems import Problem
from symphony.plan.services import fixed_ports
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony_tmux import leases
from symphony_tmux.processes import launch_file, start
from symphony_tmux.processes.environment import RESERVED, search_path
from symphony_tmux.tmux import client, server_limits

HOST = "127.0.0.1"


def target(spec: ExperimentSpec, context: Context) -> Target:
    """Return the capabilities of tmux on this machine, and the experiment's ports and problems."""
    path = search_path(launch_file.caller())
    server = settings_of(context).server
    # False: the plan only reads the leases; the session takes them.
    leased = leases.lease(context.owner, fixed_ports(spec), False, spec.port_range)
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
        refused=leased.refused,
        unreadable=local_commands.unusable(spec, context.folder),
        unstartable=local_commands.unstartable(spec, context.folder, path),
        reserved=RESERVED,
        defaults={"start_dir": str(context.folder)},
        problems=(*_refused(spec, context.owner, context.physical_name, server), *_unsupervised(spec)),
        remarks=tuple(local_commands.missing_programs(spec, context.folder, path)),
        changed_files=launching.changed_files(spec, paths.experiment_folder(server, context.physical_name)),
    )


def _gpus(spec: ExperimentSpec) -> int:
    """Return the number of GPUs of this machine; 0 if the experiment asks for none."""
    if not any(process.resource_limit.gpu for _, process in spec.members()):
        return 0
    # Imported here: few experiments need it.
    from symphony_tmux import gpus

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


def _refused(spec: ExperimentSpec, owner: str, name: str, server: str) -> tuple[Problem, ...]:
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
