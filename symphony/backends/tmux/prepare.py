"""Hands out the ports of a plan and puts its files into place before windows are made of it."""

from __future__ import annotations

from symphony.backends.expand import Context
from symphony.backends.tmux import local_files
from symphony.backends.tmux.settings import server_of
from symphony.backends.tmux.target import measured
from symphony.plan.build import build_plan
from symphony.plan.plan import Plan
from symphony.spec.experiment import ExperimentSpec


def prepare(plan: Plan, spec: ExperimentSpec, context: Context) -> Plan:
    """The plan with the ports that really are the experiment's, and its files in their folders."""
    if context.dry_run:
        return plan
    # Now the ports are really ours: one that was lost since the plan was made is another port.
    final = build_plan(spec, measured(spec, context, record=True))
    secrets, configs = local_files.folders(server_of(context), final.launched_as)
    local_files.copy(final.secrets, secrets)
    local_files.copy(final.configs, configs)
    return final
