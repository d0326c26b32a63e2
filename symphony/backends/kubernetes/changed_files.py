"""Compares the secret and config files of an experiment with those in the cluster."""

from __future__ import annotations

from base64 import b64decode

from symphony.backends import local_files
from symphony.backends.kubernetes.api.client import Client, path_of
from symphony.backends.kubernetes.api.fields import mapping
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.kubernetes.settings import Settings
from symphony.spec.experiment import ExperimentSpec


def changed(client: Client, namespace: str, chosen: Settings, spec: ExperimentSpec) -> tuple[str, ...]:
    """Return the files that an `up` changes in the cluster; none where the experiment is not up."""
    every: list[str] = []
    kinds = (
        ("secret", "secrets", labels.SECRETS, spec.secrets),
        ("config", "configmaps", labels.CONFIGS, spec.configs),
    )
    for kind, resource, name, files in kinds:
        live = client.find(path_of(resource, namespace, chosen.named(name))) if files else None
        if live is not None:
            texts = {each: text.encode() for each, text in mapping(live, "data").items()}
            data = texts if kind == "config" else {each: b64decode(text) for each, text in texts.items()}
            binary = {each: b64decode(text) for each, text in mapping(live, "binaryData").items()}
            every += local_files.changes(kind, files, {**data, **binary})
    return tuple(every)
