"""Rules of the names of experiments, process groups and processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symphony.plan.names import (
    MAX_NAME,
    as_name,
    is_experiment,
    is_label,
    is_name,
    label_remedy,
    name_remedy,
    quoted,
)
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, ProcessGroupSpec
from symphony.spec.process import ProcessSpec


def physical_name_is_valid(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    is_valid, why_not = (is_label, label_remedy) if target.labels else (is_name, name_remedy)
    if not is_valid(target.physical_name):
        yield Problem(
            f"the experiment cannot be called {quoted(target.physical_name)} on {target.backend}",
            f"{why_not(target.physical_name)}; rename the stack or set symphony:namespace",
            (spec.where,),
        )


def experiment_name_is_valid(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    if not is_experiment(spec.name) and not (spec.accepts_classic_names and as_name(spec.name)):
        yield Problem(
            f"the experiment is called {quoted(spec.name)}, which Pulumi does not accept as a name",
            f'use letters, digits, "-", "_" and ".", at most {MAX_NAME}, with a letter or digit first',
            (spec.where,),
        )


def experiment_has_processes(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    if not any(True for _ in spec.members()):
        what = f"{quoted(spec.name)} has no process"
        yield Problem(what, "declare one with new_process(...)", (spec.where,))
        return
    for group in spec.groups:
        if not group.processes:
            what = f"process group {quoted(group.name)} has no process"
            remedy = "give it one with new_process(...), or remove the group"
            yield Problem(what, remedy, (group.where,))


def names_are_valid(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for owner in (*spec.groups, *(process for _, process in spec.members())):
        if not target.is_valid(owner.name, or_mapped=spec.accepts_classic_names):
            what = f"{_kind(owner)} {quoted(owner.name)} has an invalid name"
            yield Problem(what, name_remedy(owner.name), (owner.where,))


def _kind(owner: ProcessSpec | ProcessGroupSpec) -> str:
    return "process" if isinstance(owner, ProcessSpec) else "process group"


def names_are_unique(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    # Ungrouped processes and groups share a scope: on Kubernetes each becomes a pod of that name.
    yield from _repeated([*spec.processes, *spec.groups], target)
    for group in spec.groups:
        yield from _repeated(group.processes, target, within=f" in process group {quoted(group.name)}")


def _repeated(
    owners: Sequence[ProcessSpec | ProcessGroupSpec], target: Target, within: str = ""
) -> Iterator[Problem]:
    first: dict[str, ProcessSpec | ProcessGroupSpec] = {}
    for owner in owners:
        name = target.named(owner.name)
        other = first.setdefault(name, owner)
        if other is not owner and name:
            same = type(other) is type(owner)
            mistake = f"is declared twice{within}" if same else "has the same name as an ungrouped process"
            if other.name != owner.name:
                mistake = f"and {quoted(other.name)} are both {name} on {target.backend}"
            what = f"{_kind(owner)} {quoted(owner.name)} {mistake}"
            yield Problem(what, "give one of them another name", (other.where, owner.where))
