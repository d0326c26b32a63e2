"""Rules of the order of processes, and the waits that follow from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from symphony.plan.names import nearest, shown
from symphony.plan.problems import Problem
from symphony.plan.rules.services import served
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec, path_of
from symphony.spec.order import Dependency
from symphony.spec.process import ProcessSpec


def waits(spec: ExperimentSpec) -> Iterator[tuple[str, Dependency, list[str]]]:
    """Yield each dependency of each process, with the paths that it stands for; none where it is unknown."""
    known = _known(spec)
    services = {name: [path for path, _ in servers] for name, servers in served(spec).items()}
    for group, process in spec.members():
        path = path_of(group, process)
        for each in declared(group, process):
            paths = (services if each.service else known).get(each.on, [])
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
        what = f"{path} waits for {shown(each.on)}, and {target.backend} cannot hold processes back yet"
        yield Problem(what, "take the dependency out, or run it on tmux", (each.where,))


def supervisor_has_its_name(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse a process with the name of the window that starts the processes in their order."""
    for process in spec.processes:
        if process.name == "symphony":
            what = 'a process is called "symphony", the name of a window of its own in tmux'
            yield Problem(what, "give it another name", (process.where,))


def dependencies_are_known(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    known = _known(spec)
    for path, each, paths in waits(spec):
        # A service without a server is a problem of the services.
        if not paths and not each.service and each.on not in known:
            near = nearest(each.on, known)
            remedy = f"did you mean {shown(near)}?" if near else "declare it, or take the dependency out"
            yield Problem(f"{path} waits for {shown(each.on)}, which is not declared", remedy, (each.where,))


def order_has_no_cycle(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    edges: dict[str, dict[str, Dependency]] = {}
    for path, each, paths in waits(spec):
        edges.setdefault(path, {}).update(dict.fromkeys(paths, each))
    if cycle := _cycle(edges):
        lines = tuple(edges[path][on].where for path, on in itertools.pairwise(cycle))
        what = f"{cycle[0]} waits for itself: {' -> '.join(cycle)}"
        yield Problem(what, "take one of these dependencies out", lines)


def _known(spec: ExperimentSpec) -> dict[str, list[str]]:
    """Return the paths that each name stands for: of a process, or of all processes of a group."""
    known: dict[str, list[str]] = {group.name: [] for group in spec.groups}
    for group, process in spec.members():
        path = path_of(group, process)
        known[path] = [path]
        if group is not None:
            known[group.name].append(path)
    return known


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
