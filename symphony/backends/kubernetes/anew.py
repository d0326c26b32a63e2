"""Tells an object that is gone from the cluster from the one in the state, so that `up` makes it again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes import labels
from symphony.backends.kubernetes.client import Body, Client, path_of

# A change of this replaces the object.
MARK = f'metadata.annotations["{labels.ATTEMPT}"]'
_KINDS = {"Namespace": "namespaces", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"}


def marked(client: Client, services: Mapping[str, Body], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the mark of the object that lives, or a new one when none does.

    The engine does not look into the cluster when a program has not changed: a namespace that was deleted
    would be missing for ever. services: those that live, by name. expand asks this of every object.
    """
    metadata = manifest["metadata"]
    kind, name, namespace = manifest["kind"], metadata["name"], metadata.get("namespace", "")
    if kind not in _KINDS:
        return dict(manifest)
    lives = services.get(name) if kind == "Service" else client.find(path_of(_KINDS[kind], namespace, name))
    mark = labels.annotation(lives, labels.ATTEMPT) if lives is not None else str(int(time.time()))
    notes = {**metadata["annotations"], **({labels.ATTEMPT: mark} if mark else {})}
    return {**manifest, "metadata": {**metadata, "annotations": notes}}
