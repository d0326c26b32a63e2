"""Checks a declaration against this machine's tmux before anything starts."""

from __future__ import annotations

from collections.abc import Iterator

from symphony import paths
from symphony.errors import SymphonyError
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony_tmux.processes import start
from symphony_tmux.tmux import client, server_limits


def check(spec: ExperimentSpec, owner: str, session: str, server: str) -> tuple[Problem, ...]:
    """Return why this machine cannot run the experiment in this session of this tmux server."""
    return (*_refused(spec, owner, session, server), *_unsupervised(spec))


def _unsupervised(spec: ExperimentSpec) -> Iterator[Problem]:
    """Yield the restart policies and the ends that need perl where it is missing."""
    if start.perl():
        return
    for setting in ("primary", "stop_after", "idle_after"):
        if getattr(spec, setting):
            what = f"the experiment has {setting}, for which tmux needs perl on this machine"
            yield Problem(what, f"install perl, or take {setting} out", (spec.at(setting),))
    for owner in (*spec.groups, *spec.processes):
        if owner.pod.restart_policy in ("OnFailure", "Always"):
            owner_name = f"process group {owner.name}" if isinstance(owner, ProcessGroupSpec) else owner.name
            yield Problem(
                f"{owner_name} has a restart policy, for which tmux needs perl on this machine",
                "install perl, or take the policy out",
                (owner.at("restart_policy"),),
            )


def _refused(spec: ExperimentSpec, owner: str, name: str, server: str) -> tuple[Problem, ...]:
    """Return a session of another experiment, and the resources that the tmux server lacks."""
    wanted = sum(1 for _ in spec.members())
    try:
        listing = client.list_panes(server)
    except SymphonyError:
        # The provider reports it when it starts a process there.
        return ()
    session = listing.session(name)
    if session is not None and session.owner != owner:
        what = f"the tmux session {name} belongs to {paths.owner_label(session.owner, owner)}"
        return (Problem(what, "delete that experiment or give this one another name", (spec.where,)),)
    lacks = (*server_limits.shortages(owner, wanted, listing), *server_limits.withheld(listing))
    return tuple(Problem(what, remedy, (spec.where,)) for what, remedy in lacks)
