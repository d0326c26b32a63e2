"""The settings that mean nothing in a backend, with who made them; build_plan lists them once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from symphony.plan.plan import Unused
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.mounts import MOUNT_KINDS
from symphony.spec.pod import PodSettings
from symphony.spec.process import ProcessSpec

_MOUNT_NAMES = {kind: f"mount_{name}" for name, kind in MOUNT_KINDS.items()}
_PLAIN = (
    "command",
    "args",
    "cmds",
    "preamble_cmds",
    "start_dir",
    "image",
    "image_pull_policy",
    "resource_request",
    "resource_limit",
    "container_yml",
)
_OF_EXPERIMENT = ("preamble_cmds", "start_dir", "image", "inherit", "port_range", "secrets", "configs")
_POD = tuple(PodSettings.__dataclass_fields__)


def not_used(spec: ExperimentSpec, target: Target) -> tuple[Unused, ...]:
    """Each setting that the target does not support, once, with every process or group that made it."""
    made_by: dict[str, dict[str, None]] = defaultdict(dict)
    for setting, who in _made(spec):
        if setting not in target.supports:
            made_by[setting][who] = None
    return tuple(Unused(setting, tuple(who)) for setting, who in sorted(made_by.items()))


def _made(spec: ExperimentSpec) -> Iterator[tuple[str, str]]:
    for setting in _OF_EXPERIMENT:
        if getattr(spec, setting):
            yield setting, "the experiment"
    for group in spec.groups:
        yield from _made_by(group, group.name)
    for group, process in spec.members():
        yield from _made_by(process, path_of(group, process))


def _made_by(thing: ProcessSpec | ProcessGroupSpec, who: str) -> Iterator[tuple[str, str]]:
    for setting in _PLAIN:
        value = getattr(thing, setting, None)
        given = getattr(value, "given", None)
        if given() if given else value:
            yield setting, who
    for setting in _POD:
        if getattr(thing.pod, setting):
            yield setting, who
    for mount in thing.mounts:
        yield _MOUNT_NAMES[type(mount)], who
