"""Rules of the settings that are Kubernetes' own words; they hold everywhere, so a program can move."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.plan.names import is_label, shown, why_not_label
from symphony.plan.problems import Problem
from symphony.plan.quantities import amount
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.group import ProcessGroupSpec
from symphony.spec.location import Location
from symphony.spec.mounts import Mount
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
    for i, toleration in enumerate(pod.tolerations):
        yield from _toleration(who, toleration, thing.at(f"tolerations {i}"))


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
                if quantity is not None and amount(quantity) is None:
                    yield Problem(
                        f"{path_of(group, process)} sets {kind} to {shown(str(quantity))}",
                        "write a quantity as Kubernetes does: 0.5, 500m, 2, 512Mi, 4Gi",
                        (process.at(f"{setting} {kind}"),),
                    )
            if resources.gpu is not None and resources.gpu < 0:
                yield Problem(
                    f"{path_of(group, process)} asks for {resources.gpu} GPUs",
                    "ask for none or more",
                    (process.at(f"{setting} gpu"),),
                )


def mounts_are_legal(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for who, thing in _things(spec):
        for mount in thing.mounts:
            if not mount.mount_path.startswith("/"):
                yield Problem(
                    f"{who} mounts at {shown(mount.mount_path)}", "give an absolute path", (mount.where,)
                )
            if mount.name is not None and not is_label(mount.name):
                what = f"{who} mounts a volume called {shown(mount.name)}"
                yield Problem(what, why_not_label(mount.name), (mount.where,))


def mounts_do_not_clash(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group in spec.groups:
        yield from _clashes(f"process group {group.name}", (), group.mounts)
    for group, process in spec.members():
        yield from _clashes(path_of(group, process), group.mounts if group else (), process.mounts)


def _clashes(who: str, inherited: tuple[Mount, ...], mounts: tuple[Mount, ...]) -> Iterator[Problem]:
    taken = {mount.mount_path: mount.where for mount in inherited}
    for mount in mounts:
        if mount.mount_path in taken:
            yield Problem(
                f"{who} mounts two things at {shown(mount.mount_path)}",
                "give one of them another mount_path",
                (taken[mount.mount_path], mount.where),
            )
        taken.setdefault(mount.mount_path, mount.where)
