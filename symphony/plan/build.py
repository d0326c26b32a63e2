"""A spec and a target in, a Plan out, or every Problem at once; components call it at launch."""

from __future__ import annotations

from symphony.plan.plan import Plan, PlannedGroup, PlannedProcess
from symphony.plan.problems import PlanError, Problem
from symphony.plan.rules import broken
from symphony.plan.services import bind_variables, resolve, variables
from symphony.plan.target import Target
from symphony.plan.types import checked
from symphony.plan.unused import not_used
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.process import ProcessSpec


def problems(spec: ExperimentSpec, target: Target) -> tuple[Problem, ...]:
    """Everything that keeps the experiment from running there, each once, in the order of the program."""
    return _judged(spec, target)[1]


def build_plan(spec: ExperimentSpec, target: Target) -> Plan:
    """The plan of the experiment in the target's backend. PlanError: it cannot run, with every reason.

    Pure: equal arguments give equal plans.
    """
    clean, found = _judged(spec, target)
    if found:
        raise PlanError(target.launched_as, found)
    services = resolve(clean, target)
    members = tuple(_planned(clean, group, process, target) for group, process in clean.members())
    return Plan(
        name=clean.name,
        backend=target.backend,
        launched_as=target.launched_as,
        processes=members,
        groups=tuple(_planned_group(group) for group in clean.groups),
        services=services,
        service_env=variables(services),
        inherit=clean.inherit,
        secrets=clean.secrets,
        configs=clean.configs,
        unused=not_used(clean, target),
    )


def _judged(spec: ExperimentSpec, target: Target) -> tuple[ExperimentSpec, tuple[Problem, ...]]:
    clean, wrong_types = checked(spec)
    found = dict.fromkeys((*wrong_types, *broken(clean, target)))
    return clean, tuple(sorted(found, key=lambda problem: problem.where[:1]))


def _planned(
    spec: ExperimentSpec,
    group: ProcessGroupSpec | None,
    process: ProcessSpec,
    target: Target,
) -> PlannedProcess:
    of_group = group or ProcessGroupSpec("")
    binds = _names(process, "binds")
    exposes = _names(process, "exposes")
    return PlannedProcess(
        path=path_of(group, process),
        name=process.name,
        group=group.name if group else None,
        command=process.command or (),
        args=process.args,
        cmds=process.cmds,
        preamble_cmds=(*spec.preamble_cmds, *of_group.preamble_cmds, *process.preamble_cmds),
        start_dir=process.start_dir or of_group.start_dir or spec.start_dir or target.start_dir,
        env={**spec.env, **of_group.env, **process.env},
        service_env=bind_variables((*binds, *exposes), target),
        binds=binds,
        connects=_names(process, "connects"),
        exposes=exposes,
        image=process.image or of_group.image or spec.image or target.default_image,
        image_pull_policy=process.image_pull_policy or of_group.image_pull_policy,
        resource_request=process.resource_request,
        resource_limit=process.resource_limit,
        mounts=(*of_group.mounts, *process.mounts),
        container_yml=process.container_yml,
        pod=process.pod,
        where=str(process.where),
    )


def _names(process: ProcessSpec, verb: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(use.name for use in getattr(process, verb)))


def _planned_group(group: ProcessGroupSpec) -> PlannedGroup:
    return PlannedGroup(group.name, tuple(path_of(group, process) for process in group.processes), group.pod)
