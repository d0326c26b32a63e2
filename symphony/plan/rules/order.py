"""Rules of the order of processes, and the waits that follow from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from symphony.plan.names import nearest, quoted
from symphony.plan.problems import Problem
from symphony.plan.rules.services import served
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.order import Dependency
from symphony.spec.process import ProcessSpec


def waits(spec: ExperimentSpec) -> Iterator[tuple[str, Dependency, list[str]]]:
    """Yield each dependency of each process, with the paths that it stands for; none where it is unknown."""
    names = known(spec)
    services = {name: [path for path, _ in servers] for name, servers in served(spec).items()}
    for group, process in spec.members():
        path = path_of(group, process)
        for each in declared(group, process):
            paths = (services if each.service else names).get(each.on, [])
            # A process may wait for the others of its own group.
            is_own_group = group is not None and each.on == group.name
            yield path, each, [on for on in paths if not (is_own_group and on == path)]


def declared(group: ProcessGroupSpec | None, process: ProcessSpec) -> tuple[Dependency, ...]:
    """Return the dependencies of a process and of its group."""
    return (*(group.depends_on if group is not None else ()), *process.depends_on)


def order_is_supported(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    if "depends_on" in target.supports:
        return
    for path, each, _ in waits(spec):
        what = f"{path} waits for {quoted(each.on)}, and {target.backend} cannot hold processes back yet"
        yield Problem(what, "take the dependency out, or run it on tmux", (each.where,))


def order_fits_pods(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    """Refuse a wait within a process group that is one pod, and cycles of such groups."""
    if target.one_host or "depends_on" not in target.supports:
        return
    edges: dict[str, dict[str, Dependency]] = {}
    for path, each, paths in waits(spec):
        pod = path.partition("/")[0]
        for on in paths:
            other = on.partition("/")[0]
            if other != pod:
                edges.setdefault(pod, {})[other] = each
            elif on != path:
                what = f"{path} waits for {on}, and the processes of a group start together: they are one pod"
                yield Problem(what, "take one of them out of the group", (each.where,))
    has_own_cycle = any(order_has_no_cycle(spec, target))
    if not has_own_cycle and (cycle := _cycle(edges)):
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}; the processes of a group start together"
        lines = tuple(edges[pod][on].where for pod, on in itertools.pairwise(cycle))
        yield Problem(what, "take one of these dependencies out", lines)


def supervisor_has_its_name(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse a process with the name of the window that starts the processes in their order."""
    for process in spec.processes:
        if process.name == "symphony":
            what = 'a process is called "symphony", the name of a window of its own in tmux'
            yield Problem(what, "give it another name", (process.where,))


def dependencies_are_known(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    names = known(spec)
    for path, each, paths in waits(spec):
        # A service without a server is a problem of the services.
        if not paths and not each.service and each.on not in names:
            near = nearest(each.on, names)
            remedy = f"did you mean {quoted(near)}?" if near else "declare it, or take the dependency out"
            yield Problem(f"{path} waits for {quoted(each.on)}, which is not declared", remedy, (each.where,))


def order_has_no_cycle(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    edges: dict[str, dict[str, Dependency]] = {}
    for path, each, paths in waits(spec):
        edges.setdefault(path, {}).update(dict.fromkeys(paths, each))
    if cycle := _cycle(edges):
        lines = tuple(edges[path][on].where for path, on in itertools.pairwise(cycle))
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}"
        yield Problem(what, "take one of these dependencies out", lines)


def ends_are_supported(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for setting in ("primary", "stop_after", "idle_after"):
        if getattr(spec, setting) not in (None, ()) and setting not in target.supports:
            what = f"the experiment has {setting}, which {target.backend} cannot keep"
            limits = setting == "idle_after" and "stop_after" in target.supports
            remedy = f"set stop_after in place of {setting}" if limits else f"remove {setting}"
            yield Problem(what, remedy, (spec.at(setting),))


def ends_are_legal(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse unknown primaries, those that never complete, and limits of no time."""
    names = known(spec)
    policies = {path_of(group, each): (group or each).pod.restart_policy for group, each in spec.members()}
    for name in spec.primary:
        if name not in names:
            near = nearest(name, names)
            remedy = f"did you mean {quoted(near)}?" if near else "declare it, or take it out"
            yield Problem(f"the primary {quoted(name)} is not declared", remedy, (spec.at("primary"),))
        for path in names.get(name, ()):
            if policies[path] == "Always":
                what = f"the primary {path} has the restart policy Always, and never completes"
                yield Problem(what, 'set "OnFailure" or "Never"', (spec.at("primary"),))
    for setting in ("stop_after", "idle_after"):
        if getattr(spec, setting) == 0:
            yield Problem(f"{setting} is 0 seconds", 'write it as "30m" or "8h"', (spec.at(setting),))


def known(spec: ExperimentSpec) -> dict[str, list[str]]:
    """Return the paths that each name stands for: of a process, or of all processes of a group."""
    names: dict[str, list[str]] = {group.name: [] for group in spec.groups}
    for group, process in spec.members():
        path = path_of(group, process)
        names[path] = [path]
        if group is not None:
            names[group.name].append(path)
    return names


def _cycle(edges: Mapping[str, Mapping[str, Dependency]]) -> list[str]:
    """Return the paths of one cycle, the first once more at its end; none where there is no cycle."""
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        trail, choices = [start], [iter(edges[start])]
        while trail:
            on = next(choices[-1], None)
            if on is None:
                done.add(trail.pop())
                choices.pop()
            elif on in trail:
                return [*trail[trail.index(on) :], on]
            elif on not in done:
                trail.append(on)
                choices.append(iter(edges.get(on, {})))
    return []
