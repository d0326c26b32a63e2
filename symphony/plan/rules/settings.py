"""Rules of the settings that are Kubernetes' own words; they hold everywhere, so a program can move."""

from __future__ import annotations

import re
from collections.abc import Iterator

from symphony.plan.names import shown
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.pod import PodSettings, Toleration
from symphony.spec.process import ProcessSpec

_POLICIES = {
    "image_pull_policy": ("Always", "IfNotPresent", "Never"),
    "restart_policy": ("Always", "OnFailure", "Never"),
}
_TOLERATION_WORDS = {
    "operator": ("Exists", "Equal"),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
}
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e\d+)?")


def pod_settings_belong_to_the_group(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        if group is None:
            continue
        for setting in process.pod.given():
            yield Problem(
                f"{path_of(group, process)} sets {setting}, but it is in process group {shown(group.name)}",
                f'call it on the group: its processes share one pod ("{group.name}")',
                (process.at(setting),),
            )


def _things(spec: ExperimentSpec) -> Iterator[tuple[str, ProcessSpec | ProcessGroupSpec]]:
    for group in spec.groups:
        yield f"process group {group.name}", group
    for group, process in spec.members():
        yield path_of(group, process), process


def words_are_kubernetes_own(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for who, thing in _things(spec):
        yield from _word(who, "image_pull_policy", thing.image_pull_policy, thing.at("image_pull_policy"))
        yield from _pod_words(who, thing.pod, thing)


def _pod_words(who: str, pod: PodSettings, thing: ProcessSpec | ProcessGroupSpec) -> Iterator[Problem]:
    yield from _word(who, "restart_policy", pod.restart_policy, thing.at("restart_policy"))
    for toleration in pod.tolerations:
        yield from _toleration(who, toleration, thing.at("tolerations"))


def _word(who: str, setting: str, value: str | None, where: Location) -> Iterator[Problem]:
    if value is not None and value not in _POLICIES[setting]:
        yield Problem(
            f"{who} sets {setting} to {shown(value)}",
            f"it is one of: {', '.join(_POLICIES[setting])}",
            (where,),
        )


def _toleration(who: str, toleration: Toleration, where: Location) -> Iterator[Problem]:
    for field, words in _TOLERATION_WORDS.items():
        value = getattr(toleration, field)
        if value is not None and value not in words:
            yield Problem(
                f"{who} tolerates with {field} {shown(value)}", f"it is one of: {', '.join(words)}", (where,)
            )


def quantities_are_legal(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        for setting in ("resource_request", "resource_limit"):
            resources = getattr(process, setting)
            for kind in ("cpu", "memory"):
                quantity = getattr(resources, kind)
                if quantity is not None and not _QUANTITY.fullmatch(str(quantity)):
                    yield Problem(
                        f"{path_of(group, process)} sets {kind} to {shown(str(quantity))}",
                        "write a quantity as Kubernetes does: 0.5, 500m, 2, 512Mi, 4Gi",
                        (process.at(setting),),
                    )
            if resources.gpu is not None and resources.gpu < 0:
                yield Problem(
                    f"{path_of(group, process)} asks for {resources.gpu} GPUs",
                    "ask for none or more",
                    (process.at(setting),),
                )


def mounts_are_legal(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        taken: dict[str, Location] = {}
        for mount in (*(group.mounts if group else ()), *process.mounts):
            path = path_of(group, process)
            if not mount.mount_path.startswith("/"):
                yield Problem(
                    f"{path} mounts at {shown(mount.mount_path)}", "give an absolute path", (mount.where,)
                )
            elif mount.mount_path in taken:
                yield Problem(
                    f"{path} mounts two things at {mount.mount_path}",
                    "give one of them another mount_path",
                    (taken[mount.mount_path], mount.where),
                )
            taken.setdefault(mount.mount_path, mount.where)
