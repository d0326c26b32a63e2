"""The manifest of a pod as the settings of its processes, for the plan to compare.

What is recorded in the state and what the program would make now go through the same function, so that they
can be compared setting by setting. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symphony.backends.kubernetes.api.fields import listing, mapping, text, texts
from symphony.backends.kubernetes.manifests import images, labels
from symphony.backends.kubernetes.manifests.controllers import kept_by, pod_in

# A difference in one of these replaces the pod; `pod` and `group` are what a process shares with others.
SETTINGS = (
    "image",
    "command",
    "args",
    "start_dir",
    "env",
    "secret_digests",
    "resources",
    "mounts",
    "container",
    "pod",
    "group",
    "controller",
    "namespace",
)
_OWN = ("name", "image", "command", "args", "workingDir", "env", "resources", "volumeMounts")


def processes_of(manifest: Mapping[str, Any], group: str | None) -> dict[str, dict[str, Any]]:
    """path -> the settings of each process of a pod, or of the Job that makes it."""
    spec: Mapping[str, Any] = pod_in(manifest)["spec"]
    kept = {"controller": kept_by(manifest), "namespace": text(manifest, "metadata", "namespace")}
    containers = images.unpinned(manifest, spec["containers"])
    processes = names_of(manifest)
    rest = {name: value for name, value in spec.items() if name != "containers"}
    digests = {str(each["name"]): labels.digest(each) for each in containers}
    result: dict[str, dict[str, Any]] = {}
    for each in containers:
        name = str(each["name"])
        if name not in processes:
            continue
        path = f"{group}/{name}" if group else name
        others = {other: value for other, value in digests.items() if other != name}
        result[path] = {**_of_container(each), "pod": rest, "group": others, **kept}
    return result


def names_of(manifest: Mapping[str, Any]) -> list[str]:
    """The containers that are processes: a user's pod_yml may have added others."""
    noted = labels.annotation(manifest, labels.PROCESSES)
    every = listing(pod_in(manifest), "spec", "containers")
    return noted.split(",") if noted else [str(each["name"]) for each in every]


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    """The settings in which two differ; for each of them the pod is replaced."""
    return [name for name in SETTINGS if (old.get(name) or None) != (new.get(name) or None)]


def group_of(manifest: Mapping[str, Any]) -> str | None:
    """The process group of a pod, None when it is of a process in none."""
    return labels.annotation(manifest, labels.GROUP) or None


def _digest(variable: Mapping[str, Any]) -> str:
    """Of the value of one of secret_env; nothing for any other."""
    reference = mapping(variable, "valueFrom", "secretKeyRef")
    return text(reference, "key") if text(reference, "name").endswith(labels.SECRET_ENV) else ""


def _of_container(container: Mapping[str, Any]) -> dict[str, Any]:
    env = listing(container, "env")
    return {
        "image": container.get("image"),
        "command": texts(container, "command"),
        "args": texts(container, "args"),
        "start_dir": container.get("workingDir"),
        "env": {each["name"]: each.get("value", "") for each in env if not _digest(each)},
        "secret_digests": {each["name"]: digest for each in env if (digest := _digest(each))},
        "resources": container.get("resources") or {},
        "mounts": {each["mountPath"]: each["name"] for each in listing(container, "volumeMounts")},
        "container": {name: value for name, value in container.items() if name not in _OWN},
    }
