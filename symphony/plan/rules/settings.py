"""Rules of pod settings; they are checked on every backend, so that a program can move to Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.placement.quantities import QUANTITY_REMEDY, amount
from symphony.plan.names import is_label, label_remedy, quoted
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.pod import Mount
from symphony.spec.setting import explicit_settings


def pod_settings_belong_to_the_group(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        if group is None:
            continue
        for setting, _ in explicit_settings(process.pod):
            path = path_of(group, process)
            yield Problem(
                f"{path} sets {setting.name}, which belongs to its process group {quoted(group.name)}",
                "set it on the group: its processes share one pod",
                (process.at(setting.name),),
            )


def quantities_are_valid(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        path = path_of(group, process)
        for setting in ("resource_request", "resource_limit"):
            resources = getattr(process, setting)
            for kind in ("cpu", "memory"):
                quantity = getattr(resources, kind)
                if quantity is not None and amount(quantity) is None:
                    yield Problem(
                        f"{path} sets {kind} to {quoted(str(quantity))}, which is not a quantity",
                        QUANTITY_REMEDY,
                        (process.at(f"{setting} {kind}"),),
                    )
            if resources.gpu is not None and resources.gpu < 0:
                yield Problem(
                    f"{path} asks for {resources.gpu} GPUs",
                    "request 0 or more",
                    (process.at(f"{setting} gpu"),),
                )


def gpus_suffice(spec: ExperimentSpec, target: Target) -> Iterator[Problem]:
    for group, process in spec.members():
        count = process.resource_limit.gpu
        if count and target.gpus and count > target.gpus:
            yield Problem(
                f"{path_of(group, process)} asks for {count} GPUs, but this machine has {target.gpus}",
                "ask for fewer, or run it on Kubernetes",
                (process.at("resource_limit gpu"),),
            )


def mounts_are_valid(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for part_name, part in spec.parts():
        for mount in part.mounts:
            if not mount.mount_path.startswith("/"):
                yield Problem(
                    f"{part_name} mounts at {quoted(mount.mount_path)}, which is not an absolute path",
                    "give an absolute path",
                    (mount.where,),
                )
            if mount.name is not None and not is_label(mount.name):
                what = f"{part_name} mounts a volume called {quoted(mount.name)}"
                yield Problem(what, label_remedy(mount.name), (mount.where,))


def mounts_do_not_clash(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    for group in spec.groups:
        yield from _clashes(f"process group {group.name}", (), group.mounts)
    for group, process in spec.members():
        yield from _clashes(path_of(group, process), group.mounts if group else (), process.mounts)


def _clashes(owner_name: str, inherited: tuple[Mount, ...], mounts: tuple[Mount, ...]) -> Iterator[Problem]:
    taken = {mount.mount_path: mount.where for mount in inherited}
    for mount in mounts:
        if mount.mount_path in taken:
            yield Problem(
                f"{owner_name} mounts two things at {quoted(mount.mount_path)}",
                "give one of them another mount_path",
                (taken[mount.mount_path], mount.where),
            )
        taken.setdefault(mount.mount_path, mount.where)
