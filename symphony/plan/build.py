"""Builds the Plan of a spec within the limits of a backend, or gathers every Problem."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from symphony.placement.planner import summarize
from symphony.plan import code
from symphony.plan.backend_limits import BackendLimits
from symphony.plan.names import and_more
from symphony.plan.place import Places, place
from symphony.plan.plan import Ends, Plan, PlannedGroup, PlannedProcess, PlannedService, Unused
from symphony.plan.problems import PlanError, Problem
from symphony.plan.rules import PROBES, check, paths_by_name, remarks, services_of, waits
from symphony.plan.services import bind_variables, rendezvous_variables, resolve, variables
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.pod import MOUNT_KINDS, Mount, PodSettings
from symphony.spec.process import Probe, ProcessSettings, ProcessSpec, Resources
from symphony.spec.setting import explicit_settings, settings_of
from symphony.spec.shared import Secret
from symphony.supervision import Wait

_MAX_LISTED = 5
_MOUNT_NAMES = {kind: f"mount_{name}" for name, kind in MOUNT_KINDS.items()}


def build_plan(
    spec: ExperimentSpec, limits: BackendLimits, more_problems: Sequence[Problem] = (), stack: str = ""
) -> Plan:
    """Return the plan of the experiment on a backend. Equal arguments give equal plans.

    Args:
        spec: The declaration of the experiment.
        limits: The limits of the backend.
        more_problems: Further reasons why the experiment cannot run.
        stack: The name of the stack, for the error.

    Raises:
        PlanError: The experiment cannot run; the error lists every reason.
    """
    places = place(spec, limits)
    problems = dict.fromkeys((*more_problems, *check(spec, limits), *places.problems))
    if problems:
        ordered = tuple(sorted(problems, key=lambda problem: problem.where[:1]))
        raise PlanError(stack or limits.physical_name, ordered)
    services = resolve(spec, limits)
    members = list(spec.members())
    paths = {path_of(group, process): limits.path_of(group, process) for group, process in members}
    order = _waits_by_path(spec, paths)
    merged = [merge(spec, group, process, limits) for group, process in members]
    files = {patterns: code.files_of(spec, patterns) for s in merged if (patterns := s.get("code"))}
    digests = {patterns: code.digest_of(matched) for patterns, matched in files.items()}
    processes = tuple(
        _plan_process(settings, group, process, limits, places, order, services, digests)
        for (group, process), settings in zip(members, merged, strict=True)
    )
    names = {pod.name: limits.map_name(pod.name) for pod in (*spec.processes, *spec.groups)}
    renamed = {group.name: names[group.name] for group in spec.groups} | paths
    by_name = paths_by_name(spec)
    primaries = {path for name in spec.primary for path in by_name.get(name, ())}
    return Plan(
        name=spec.name,
        backend=limits.backend,
        physical_name=limits.physical_name,
        processes=processes,
        groups=tuple(
            PlannedGroup(
                names[group.name],
                tuple(paths[path_of(group, process)] for process in group.processes),
                places.pods.get(group.name, group.pod),
            )
            for group in spec.groups
        ),
        services=services,
        service_env=variables(services),
        inherit=spec.inherit,
        secrets=spec.secrets,
        configs=spec.configs,
        unused=not_used(spec, limits, merged),
        renamed={declared: path for declared, path in renamed.items() if declared != path},
        changed_files=limits.changed_files,
        code={digests[patterns]: matched for patterns, matched in files.items()},
        remarks=(*_name_remarks(spec, limits), *remarks(spec), *limits.remarks, *places.remarks),
        placement=summarize(places.placement, limits.pools, names),
        ends=Ends(
            tuple(paths[path] for path in paths if path in primaries), spec.stop_after, spec.idle_after
        ),
    )


def _plan_process(
    settings: Mapping[str, Any],
    group: ProcessGroupSpec | None,
    process: ProcessSpec,
    limits: BackendLimits,
    places: Places,
    order: Mapping[str, tuple[Wait, ...]],
    services: tuple[PlannedService, ...],
    digests: Mapping[tuple[str, ...], str],
) -> PlannedProcess:
    settings = dict(settings)
    if resources := places.resources.get(path_of(group, process)):
        settings["resource_request"], settings["resource_limit"] = resources
    if group is None and process.name in places.pods:
        settings["pod"] = places.pods[process.name]
    settings.pop("depends_on", None)
    for setting in PROBES:
        if probe := settings.get(setting):
            settings[setting] = _with_mapped_port(probe, process, limits)
    binds = _names(process, "binds", limits)
    exposes = _names(process, "exposes", limits)
    for setting in ineffective(settings, limits):
        del settings[setting]
    has_own_gpus = bool(settings.get("resource_limit", Resources()).gpu)
    return PlannedProcess(
        **settings,
        path=limits.path_of(group, process),
        name=limits.map_name(process.name),
        group=limits.map_name(group.name) if group else None,
        service_env={
            **bind_variables((*binds, *exposes), limits),
            **rendezvous_variables(process, services, shares_gpus=limits.one_host and not has_own_gpus),
            **({code.VARIABLE: digests[settings["code"]]} if settings.get("code") else {}),
        },
        binds=binds,
        connects=_names(process, "connects", limits),
        exposes=exposes,
        where=str(process.where),
        waits_for=order.get(path_of(group, process), ()),
    )


def _with_mapped_port(probe: Probe, process: ProcessSpec, limits: BackendLimits) -> Probe:
    """Return the probe with the mapped name of its service; http without a port gets the only service."""
    port = probe.tcp if probe.http is None else (probe.port or services_of(process)[0])
    name = limits.map_name(port) if isinstance(port, str) else port
    return replace(probe, tcp=name) if probe.http is None else replace(probe, port=name)


def _waits_by_path(spec: ExperimentSpec, backend_paths: Mapping[str, str]) -> dict[str, tuple[Wait, ...]]:
    """Return the waits of every process, by its declared path; the paths in a wait are the backend's."""
    by_path: dict[str, dict[Wait, None]] = defaultdict(dict)
    for path, on, paths in waits(spec):
        for other in paths:
            on_path = backend_paths[other]
            wait = Wait(
                path=on_path, condition=on.condition, timeout=on.timeout, restart_with=on.restart_with
            )
            by_path[path][wait] = None
    return {path: tuple(distinct) for path, distinct in by_path.items()}


def _names(process: ProcessSpec, verb: str, limits: BackendLimits) -> tuple[str, ...]:
    return tuple(dict.fromkeys(limits.map_name(use.name) for use in getattr(process, verb)))


def _name_remarks(spec: ExperimentSpec, limits: BackendLimits) -> Iterator[Problem]:
    """Yield a single remark about all names that the backend changes."""
    processes = [process for _, process in spec.members()]
    uses = [use for process in processes for use in (*process.binds, *process.exposes)]
    names = [owner.name for owner in (*spec.groups, *processes, *uses)]
    mapped = {name: limits.map_name(name) for name in names if limits.map_name(name) != name}
    if limits.map_name(spec.name) == limits.physical_name != spec.name:
        mapped = {spec.name: limits.physical_name, **mapped}
    if mapped:
        pairs = [f"{declared} -> {name}" for declared, name in mapped.items()]
        listing = and_more(pairs, _MAX_LISTED)
        yield Problem(f"{limits.backend} does not allow some names, which are changed: {listing}", "")


def merge(
    spec: ExperimentSpec, group: ProcessGroupSpec | None, process: ProcessSpec, limits: BackendLimits
) -> dict[str, Any]:
    """Return the value of every setting of a process, from the experiment, its group and the process itself.

    Lists and mappings are joined; of other values, the one nearest to the process is used.
    """
    merged: dict[str, Any] = dict(zip(("env", "secret_env"), _variables(spec, group, process), strict=True))
    for name in settings_of(ProcessSettings):
        owned = [getattr(owner, name, None) for owner in (spec, group, process)]
        # 0 counts as set, and so does an empty Place or PodSettings: a group's are for its pod as a whole.
        values = [value for value in (limits.defaults.get(name), *owned) if value or value == 0]
        if name not in merged and values:
            merged[name] = _join(values)
    return merged


def _variables(*owners: ExperimentSpec | ProcessGroupSpec | ProcessSpec | None) -> tuple[Any, Any]:
    """Return the plain and the secret variables; the owner nearest to the process wins."""
    env: dict[str, str] = {}
    secret_env: dict[str, Secret] = {}
    for owner in filter(None, owners):
        env = {name: value for name, value in env.items() if name not in owner.secret_env} | {**owner.env}
        secret_env = {name: secret for name, secret in secret_env.items() if name not in owner.env}
        secret_env.update(owner.secret_env)
    return env, secret_env


def ineffective(settings: Mapping[str, Any], limits: BackendLimits) -> tuple[str, ...]:
    """Return the settings of a process that its other settings, or its image, make ineffective.

    In a container, command or args win over cmds; elsewhere cmds win. A relative start_dir starts at the
    program's folder, which a container does not have.
    """
    if limits.starts == "image":
        has_command = settings.get("command") or settings.get("args")
        without_effect = ("cmds", "preamble_cmds") if has_command or not settings.get("cmds") else ()
        if not str(settings.get("start_dir", "/")).startswith("/"):
            without_effect += ("start_dir",)
    else:
        without_effect = ("command", "args") if settings.get("cmds") else ()
    limit: Resources = settings.get("resource_limit", Resources())
    # On this machine only GPUs are allocated; CPUs and memory are not limited.
    if limits.gpus is not None and limit != Resources() and not (limits.gpus and limit.gpu):
        without_effect += ("resource_limit",)
    return tuple(name for name in without_effect if settings.get(name))


def _join(values: list[Any]) -> Any:
    nearest = values[-1]
    if isinstance(nearest, tuple):
        return tuple(chain.from_iterable(values))
    if isinstance(nearest, Mapping):
        return {key: item for mapping in values for key, item in mapping.items()}
    return nearest


def not_used(
    spec: ExperimentSpec, limits: BackendLimits, merged: Sequence[Mapping[str, Any]]
) -> tuple[Unused, ...]:
    """Return every setting that the backend does not use, with its owners: experiment, groups and processes.

    merged: the settings of each process, in the order of `spec.members()`.
    """
    owners: dict[str, dict[str, None]] = defaultdict(dict)
    named_owners: list[tuple[str, Any]] = [
        ("the experiment", spec),
        *((group.name, group) for group in spec.groups),
    ]
    named_owners += [(path_of(group, process), process) for group, process in spec.members()]
    for name, owner in named_owners:
        for setting in _varying_settings(owner):
            if setting not in limits.supports:
                owners[setting][name] = None
    for (group, process), settings in zip(spec.members(), merged, strict=True):
        for setting in ineffective(settings, limits):
            if setting in limits.supports:
                owners[setting][path_of(group, process)] = None
    return tuple(Unused(setting, tuple(names)) for setting, names in sorted(owners.items()))


def _varying_settings(owner: Any) -> Iterator[str]:
    """Yield the settings of an owner that only some backends use."""
    for setting, value in explicit_settings(owner):
        if setting.part is PodSettings:
            yield from _varying_settings(value)
        elif setting.part is Mount:
            yield from (_MOUNT_NAMES[type(mount)] for mount in value)
        elif setting.varies and value:
            yield setting.name
