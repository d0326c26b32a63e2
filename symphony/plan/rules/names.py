"""Rules of names: the experiment's, its groups' and its processes'."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.plan.names import is_label, nearest, shown, why_not_label
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.process import ProcessSpec


def launched_name_is_legal(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    if not is_label(target.launched_as):
        yield Problem(
            f"the experiment cannot be called {shown(target.launched_as)} on {target.world}",
            f"{why_not_label(target.launched_as)}; rename the stack or set symphony:namespace",
            (spec.where,),
        )


def experiment_has_processes(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    if not any(True for _ in spec.members()):
        yield Problem(
            f"{shown(spec.name)} has no process", "declare one with new_process(...)", (spec.where,)
        )
    for group in spec.groups:
        if not group.processes and any(True for _ in spec.members()):
            yield Problem(
                f"process group {shown(group.name)} has no process",
                "give it one with new_process(...), or leave the group out",
                (group.where,),
            )


def names_are_legal(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    things: list[tuple[str, ProcessSpec | ProcessGroupSpec]] = [("process group", g) for g in spec.groups]
    things += [("process", process) for _, process in spec.members()]
    for kind, thing in things:
        if not is_label(thing.name):
            yield Problem(
                f"{kind} {shown(thing.name)} has an illegal name", why_not_label(thing.name), (thing.where,)
            )


def names_are_unique(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    # A free process and a group share one scope: each becomes a pod of that name.
    yield from _repeated([*spec.processes, *spec.groups])
    for group in spec.groups:
        yield from _repeated(group.processes, within=f" in process group {shown(group.name)}")


def _repeated(
    things: list[ProcessSpec | ProcessGroupSpec] | tuple[ProcessSpec, ...], within: str = ""
) -> Iterator[Problem]:
    first: dict[str, ProcessSpec | ProcessGroupSpec] = {}
    for thing in things:
        other = first.setdefault(thing.name, thing)
        if other is not thing:
            kind = "process" if isinstance(thing, ProcessSpec) else "process group"
            yield Problem(
                f"{kind} {shown(thing.name)} is declared twice{within}",
                "give one of them another name",
                (other.where, thing.where),
            )


def settings_are_known(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    things: list[tuple[str, ExperimentSpec | ProcessGroupSpec | ProcessSpec]] = [("the experiment", spec)]
    things += [(f"process group {group.name}", group) for group in spec.groups]
    things += [(path_of(group, process), process) for group, process in spec.members()]
    for who, thing in things:
        known = sorted(
            set(type(thing).__dataclass_fields__) - {"where", "said", "unknown", "processes", "groups"}
        )
        for name in thing.unknown:
            near = nearest(name, known)
            remedy = f'did you mean "{near}"?' if near else f"the settings are: {', '.join(known)}"
            yield Problem(f"{who} is given {shown(name)}, which is no setting", remedy, (thing.where,))
