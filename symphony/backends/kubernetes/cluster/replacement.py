"""Annotates objects so that `up` re-creates objects that no longer exist in the cluster."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from pulumi.runtime.rpc import UNKNOWN

from symphony.backends.kubernetes.api.client import Body, Client, path_of
from symphony.backends.kubernetes.api.fields import mapping, text
from symphony.backends.kubernetes.manifests import controllers, labels
from symphony.backends.kubernetes.manifests.render import Manifest, Manifests

# A changed attempt replaces an object; a changed digest replaces a pod.
ATTEMPT = f'metadata.annotations["{labels.ATTEMPT}"]'
DIGEST = f'metadata.annotations["{labels.DIGEST}"]'
_KINDS = {"Namespace": "namespaces", "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services"}


def annotate_all(
    client: Client, services: Mapping[str, Body], manifests: Manifests, unknown: Collection[str]
) -> Manifests:
    """Return the manifests, annotated with the attempts of their objects in the cluster, or new attempts.

    services: the Services in the cluster, by name. unknown: the names in the plan of pods whose attempt only
    the run decides.
    """

    def with_attempt(manifest: Manifest | None) -> Manifest | None:
        return None if manifest is None else _annotate(client, services, manifest)

    return replace(
        manifests,
        namespace=with_attempt(manifests.namespace),
        variables=_annotate(client, services, manifests.variables),
        secrets=with_attempt(manifests.secrets),
        configs=with_attempt(manifests.configs),
        secret_env=with_attempt(manifests.secret_env),
        supervisor=tuple(
            annotated(manifest, {labels.ATTEMPT: UNKNOWN})
            if labels.SUPERVISOR in unknown and manifest["kind"] == controllers.JOB
            else manifest
            for manifest in manifests.supervisor
        ),
        services={name: _annotate(client, services, body) for name, body in manifests.services.items()},
        pods={
            name: (group, annotated(pod, {labels.ATTEMPT: UNKNOWN}) if name in unknown else pod)
            for name, (group, pod) in manifests.pods.items()
        },
    )


def _annotate(client: Client, services: Mapping[str, Body], manifest: Manifest) -> Manifest:
    """Return the manifest with its object's attempt, or a new attempt if the object is missing.

    Otherwise a deleted namespace would stay missing: the engine does not look into the cluster if a program
    has not changed.
    """
    metadata = manifest["metadata"]
    kind, name, namespace = manifest["kind"], metadata["name"], metadata.get("namespace", "")
    live = services.get(name) if kind == "Service" else client.find(path_of(_KINDS[kind], namespace, name))
    attempt = labels.annotation(live, labels.ATTEMPT) if live is not None else str(int(time.time()))
    edited = _edited_version(live, manifest) if live is not None and kind in ("ConfigMap", "Secret") else ""
    annotations = {labels.ATTEMPT: attempt, labels.EDITED: edited}
    return annotated(manifest, {name: text for name, text in annotations.items() if text})


def _edited_version(live: Body, manifest: Manifest) -> str:
    """Return the version of the object if others have edited its contents, now or before the last `up`.

    The engine compares only with its state, which does not contain edits by others.
    """
    for field in ("data", "binaryData"):
        if mapping(manifest, field) != mapping(live, field):
            return text(live, "metadata", "resourceVersion")
    return labels.annotation(live, labels.EDITED)


def annotated(manifest: Manifest, annotations: Mapping[str, str]) -> Manifest:
    """Return the manifest with more annotations.

    An unknown annotation makes Pulumi's plugin skip its dry run in a preview. The server would reject it as a
    forbidden change of the running pod, and the preview would fail.
    """
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], **annotations}},
    }
