"""The rules that check a declaration; a new rule is a function and a row in RULES."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from symphony.plan.problems import Problem
from symphony.plan.rules import commands, environment, names, order, probes, services, settings
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec

Rule = Callable[[ExperimentSpec, Target], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    names.physical_name_is_valid,
    names.experiment_name_is_valid,
    names.experiment_has_processes,
    names.names_are_valid,
    names.names_are_unique,
    services.names_are_valid,
    services.names_are_distinct,
    services.services_are_bound_once,
    services.connects_to_what_is_bound,
    services.no_port_in_connects,
    services.ports_are_in_range,
    services.ports_are_declared_once,
    services.ports_are_free,
    order.order_is_supported,
    order.order_fits_pods,
    order.supervisor_has_its_name,
    order.dependencies_are_known,
    order.order_has_no_cycle,
    order.ends_are_supported,
    order.ends_are_valid,
    probes.probes_check_own_services,
    probes.liveness_probes_read_no_logs,
    environment.variables_are_valid,
    environment.variables_do_not_collide,
    environment.secrets_are_available,
    environment.inherit_is_valid,
    commands.processes_have_a_command,
    commands.texts_are_passable,
    commands.code_exists,
    commands.files_are_readable,
    commands.commands_can_start,
    settings.pod_settings_belong_to_the_group,
    settings.quantities_are_valid,
    settings.gpus_suffice,
    settings.mounts_are_valid,
    settings.mounts_do_not_clash,
)


def check(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    """Yield every problem, rule by rule, then the problems that the backend found."""
    for rule in RULES:
        yield from rule(spec, target)
    yield from target.problems
