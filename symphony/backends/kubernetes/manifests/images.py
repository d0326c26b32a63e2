"""Images that are built: what a pod runs is known once they are pushed, its name before. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from symphony.backends.kubernetes.manifests import labels

_CONTAINERS = ("containers", "initContainers")


def pinned(manifest: Mapping[str, Any], images: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a pod, or of what makes it, with the image by its digest in the place of its name.

    A note keeps the names: one that is pushed again under another digest is the same to a pod that runs.
    """
    names: dict[str, str] = {}

    def put(container: Mapping[str, Any]) -> dict[str, Any]:
        name = str(container.get("image"))
        if name not in images:
            return dict(container)
        names[str(container["name"])] = name
        return {**container, "image": images[name]}

    changed = _walked(manifest, put)
    if not names:
        return dict(manifest)
    metadata = manifest["metadata"]
    notes = {**metadata["annotations"], labels.IMAGES: json.dumps(names, sort_keys=True)}
    return {**changed, "metadata": {**metadata, "annotations": notes}}


def unpinned(manifest: Mapping[str, Any], containers: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The containers of a recorded manifest, with the names of images that were built as the program says."""
    noted = labels.annotation(manifest, labels.IMAGES)
    names: Mapping[str, str] = json.loads(noted) if noted else {}
    return [
        {**each, "image": names[each["name"]]} if each.get("name") in names else each for each in containers
    ]


def _walked(value: Any, put: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """A copy in which every container is what `put` makes of it, however deep in a Job it is."""
    if isinstance(value, list):
        return [_walked(each, put) for each in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    result: dict[str, Any] = {}
    for name, each in cast("Mapping[str, Any]", value).items():
        if name in _CONTAINERS and isinstance(each, list):
            result[name] = [put(container) for container in cast("list[Any]", each)]
        else:
            result[name] = _walked(each, put)
    return result
