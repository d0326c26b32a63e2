"""Tells an object that is gone from the cluster from the one in the state, so that `up` makes it again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from symphony.backends.kubernetes.api.client import Body, Client, path_of
from symphony.backends.kubernetes.manifests import labels

# A change of this replaces the object; of a pod also one of what it is made of.
MARK = f'metadata.annotations["{labels.ATTEMPT}"]'
DIGEST = f'metadata.annotations["{labels.DIGEST}"]'
_KINDS = {"Namespace": "namespaces", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"}


def unknown(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a pod that is to be replaced, for a preview: which start it will be only the run says.

    Of what is unknown Pulumi's own plugin asks nobody. Else it would have the server judge it as a change of
    the pod that still lives, which no spec of a pod can have, and the preview would fail.
    """
    metadata = manifest["metadata"]
    notes = {**metadata["annotations"], labels.ATTEMPT: UNKNOWN}
    return {**manifest, "metadata": {**metadata, "annotations": notes}}


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
