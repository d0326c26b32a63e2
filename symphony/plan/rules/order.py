"""Rules of dependencies and ends, and the waits that follow from the dependencies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from symphony.plan.names import did_you_mean, quoted
from symphony.plan.problems import Problem
from symphony.plan.rules.services import served
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.order import Dependency
from symphony.spec.process import ProcessSpec


def waits(spec: ExperimentSpec) -> Iterator[tuple[str, Dependency, list[str]]]:
    """Yield (path, dependency, paths that it names) for every process; unknown names have no paths."""
    by_name = paths_by_name(spec)
    services = {name: [path for path, _ in servers] for name, servers in served(spec).items()}
    for group, process in spec.members():
        path = path_of(group, process)
        for dependency in dependencies_of(group, process):
            paths = (services if dependency.service else by_name).get(dependency.on, [])
            # A process that waits for its own group waits for the other processes of the group.
            is_own_group = group is not None and dependency.on == group.name
            yield path, dependency, [on for on in paths if not (is_own_group and on == path)]


def dependencies_of(group: ProcessGroupSpec | None, process: ProcessSpec) -> tuple[Dependency, ...]:
    """Return the dependencies of a process and of its group."""
    return (*(group.depends_on if group is not None else ()), *process.depends_on)


def order_is_supported(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    if "depends_on" in target.supports:
        return
    for path, dependency, _ in waits(spec):
        what = f"{path} waits for {quoted(dependency.on)}, but {target.backend} does not support dependencies"
        yield Problem(what, "remove the dependency, or run the experiment on tmux", (dependency.where,))


def order_fits_pods(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    """Refuse a wait within a process group that is one pod, and cycles of such groups."""
    if target.one_host or "depends_on" not in target.supports:
        return
    edges: dict[str, dict[str, Dependency]] = {}
    for path, dependency, paths in waits(spec):
        pod = path.partition("/")[0]
        for on in paths:
            other_pod = on.partition("/")[0]
            if other_pod != pod:
                edges.setdefault(pod, {})[other_pod] = dependency
            elif on != path:
                what = f"{path} waits for {on}, but the processes of a group start together, in one pod"
                yield Problem(what, "move one of them out of the group", (dependency.where,))
    has_own_cycle = any(order_has_no_cycle(spec, target))
    if not has_own_cycle and (cycle := _cycle(edges)):
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}; the processes of a group start together"
        lines = tuple(edges[pod][on].where for pod, on in itertools.pairwise(cycle))
        yield Problem(what, "remove one of these dependencies", lines)


def supervisor_has_its_name(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse a process that has the name of the supervisor's window."""
    for process in spec.processes:
        if process.name == "symphony":
            what = 'a process is called "symphony", which is the name of the supervisor\'s window in tmux'
            yield Problem(what, "rename the process", (process.where,))


def dependencies_are_known(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    by_name = paths_by_name(spec)
    for path, dependency, paths in waits(spec):
        name = dependency.on
        # connects_to_what_is_bound reports a service that no process binds.
        if not paths and not dependency.service and name not in by_name:
            remedy = did_you_mean(name, by_name, "declare it, or remove the dependency")
            what = f"{path} waits for {quoted(name)}, which is not declared"
            yield Problem(what, remedy, (dependency.where,))


def order_has_no_cycle(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    edges: dict[str, dict[str, Dependency]] = {}
    for path, dependency, paths in waits(spec):
        edges.setdefault(path, {}).update(dict.fromkeys(paths, dependency))
    if cycle := _cycle(edges):
        lines = tuple(edges[path][on].where for path, on in itertools.pairwise(cycle))
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}"
        yield Problem(what, "remove one of these dependencies", lines)


def ends_are_supported(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for setting in ("primary", "stop_after", "idle_after"):
        if getattr(spec, setting) not in (None, ()) and setting not in target.supports:
            what = f"the experiment sets {setting}, which {target.backend} does not support"
            yield Problem(what, f"remove {setting}", (spec.at(setting),))


def ends_are_valid(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse unknown primaries, primaries that never complete, and limits of 0 seconds."""
    by_name = paths_by_name(spec)
    policies = {
        path_of(group, process): (group or process).pod.restart_policy for group, process in spec.members()
    }
    for name in spec.primary:
        if name not in by_name:
            remedy = did_you_mean(name, by_name, "declare it, or remove it from primary")
            yield Problem(f"the primary {quoted(name)} is not declared", remedy, (spec.at("primary"),))
        for path in by_name.get(name, ()):
            if policies[path] == "Always":
                what = f"the primary {path} has the restart policy Always, so it never completes"
                yield Problem(what, 'set its restart_policy to "OnFailure" or "Never"', (spec.at("primary"),))
    for setting in ("stop_after", "idle_after"):
        if getattr(spec, setting) == 0:
            yield Problem(
                f"{setting} is 0 seconds", 'set a duration such as "30m" or "8h"', (spec.at(setting),)
            )


def paths_by_name(spec: ExperimentSpec) -> dict[str, list[str]]:
    """Return the paths that each name refers to: a single process, or all processes of a group."""
    by_name: dict[str, list[str]] = {group.name: [] for group in spec.groups}
    for group, process in spec.members():
        path = path_of(group, process)
        by_name[path] = [path]
        if group is not None:
            by_name[group.name].append(path)
    return by_name


def _cycle(edges: Mapping[str, Mapping[str, Dependency]]) -> list[str]:
    """Return the paths of a cycle, with its first path again at the end; empty if there is no cycle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []
