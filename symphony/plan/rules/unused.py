"""The settings that a backend does not use, with the processes and groups that made them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from symphony.plan.merge import ineffective, merge
from symphony.plan.plan import Unused
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.mounts import MOUNT_KINDS, Mount
from symphony.spec.pod import PodSettings
from symphony.spec.setting import given

_MOUNT_NAMES = {kind: f"mount_{name}" for name, kind in MOUNT_KINDS.items()}


def not_used(spec: ExperimentSpec, target: Target) -> tuple[Unused, ...]:
    """Return every setting that the target does not support, with the processes and groups that made it."""
    made_by: dict[str, dict[str, None]] = defaultdict(dict)
    for setting, who in _made(spec):
        if setting not in target.supports:
            made_by[setting][who] = None
    for group, process in spec.members():
        for setting in ineffective(merge(spec, group, process, target), target):
            if setting in target.supports:
                made_by[setting][path_of(group, process)] = None
    return tuple(Unused(setting, tuple(who)) for setting, who in sorted(made_by.items()))


def _made(spec: ExperimentSpec) -> Iterator[tuple[str, str]]:
    yield from _made_by(spec, "the experiment")
    for group in spec.groups:
        yield from _made_by(group, group.name)
    for group, process in spec.members():
        yield from _made_by(process, path_of(group, process))


def _made_by(thing: Any, who: str) -> Iterator[tuple[str, str]]:
    for setting, value in given(thing):
        if setting.part is PodSettings:
            yield from _made_by(value, who)
        elif setting.part is Mount:
            yield from ((_MOUNT_NAMES[type(mount)], who) for mount in value)
        elif setting.varies and value:
            yield setting.name, who
