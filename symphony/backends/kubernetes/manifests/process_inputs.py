"""Reads the processes from the manifest of a pod, and pins its built images to digests. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.api.fields import listing, mapping, text
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.kubernetes.manifests.controllers import controller_of, pod_in, with_spec
from symphony.content.code_files import VARIABLE


def processes_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the facts of each process in the manifest of a pod or its Job, by path."""
    group = labels.annotation(manifest, labels.GROUP)
    selector = mapping(pod_in(manifest), "spec", "nodeSelector")
    shared = {
        "controller": controller_of(manifest),
        "fingerprint": fingerprint(manifest),
        "pod": {"nodeSelector": selector},
    }
    built: Mapping[str, str] = json.loads(labels.annotation(manifest, labels.IMAGES) or "{}")
    names = names_of(manifest)
    return {
        f"{group}/{name}" if group else name: {
            "image": built.get(name, container.get("image")),
            "resources": container.get("resources") or {},
            "code": _code(container),
            **shared,
        }
        for container in pod_in(manifest)["spec"]["containers"]
        if (name := str(container["name"])) in names
    }


def _code(container: Mapping[str, Any]) -> str:
    variables = {variable["name"]: variable for variable in listing(container, "env")}
    return text(variables.get(VARIABLE), "value")


def pinned(manifest: Mapping[str, Any], images: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a pod or its Job with image digests in place of image names.

    An annotation keeps the names, so that an image pushed again under another digest restarts no process.
    """
    spec = pod_in(manifest)["spec"]
    lists = {kind: listing(spec, kind) for kind in ("initContainers", "containers") if kind in spec}
    names = {
        str(container["name"]): container["image"]
        for containers in lists.values()
        for container in containers
        if container.get("image") in images
    }
    if not names:
        return dict(manifest)
    pinned_lists = {
        kind: [
            {**container, "image": images.get(container["image"], container["image"])}
            for container in containers
        ]
        for kind, containers in lists.items()
    }
    changed = with_spec(manifest, {**spec, **pinned_lists})
    return labels.annotated(changed, {labels.IMAGES: json.dumps(names, sort_keys=True)})


def names_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the containers that are processes; pod_yml may have added others."""
    if names := labels.annotation(manifest, labels.PROCESSES):
        return names.split(",")
    return [str(container["name"]) for container in listing(pod_in(manifest), "spec", "containers")]


def fingerprint(manifest: Mapping[str, Any]) -> str:
    """Return the fingerprint of a pod; if it changes, the pod is replaced."""
    controller = controller_of(manifest)
    made_by = "/".join(map(str, controller.values())) or "Pod"
    namespace = text(manifest, "metadata", "namespace")
    return f"{namespace}/{made_by}/{labels.annotation(manifest, labels.DIGEST)}"


def secret_digests(manifest: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the digests of the values of a process's secret_env, by variable."""
    containers = {
        container["name"]: container for container in listing(pod_in(manifest), "spec", "containers")
    }
    variables = listing(containers.get(name), "env")
    return {variable["name"]: digest for variable in variables if (digest := _digest(variable))}


def _digest(variable: Mapping[str, Any]) -> str:
    reference = mapping(variable, "valueFrom", "secretKeyRef")
    return text(reference, "key") if text(reference, "name").endswith(labels.SECRET_ENV) else ""
