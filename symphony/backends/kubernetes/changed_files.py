"""Which secret and config files of an experiment are others than those in the cluster."""

from __future__ import annotations

from base64 import b64decode

from symphony.backends import local_files
from symphony.backends.kubernetes.api.client import Client, path_of
from symphony.backends.kubernetes.api.fields import mapping
from symphony.backends.kubernetes.manifests import labels
from symphony.backends.kubernetes.settings import Settings
from symphony.spec.experiment import ExperimentSpec


def changed(client: Client, namespace: str, chosen: Settings, spec: ExperimentSpec) -> tuple[str, ...]:
    """Return the files that an `up` changes in the cluster, where the experiment has some there."""
    result: list[str] = []
    kinds = (
        ("secret", "secrets", labels.SECRETS, spec.secrets),
        ("config", "configmaps", labels.CONFIGS, spec.configs),
    )
    for kind, resource, name, files in kinds:
        live = client.find(path_of(resource, namespace, chosen.named(name))) if files else None
        if live is not None:
            texts = {each: text.encode() for each, text in mapping(live, "data").items()}
            there = texts if kind == "config" else {each: b64decode(data) for each, data in texts.items()}
            binary = {each: b64decode(data) for each, data in mapping(live, "binaryData").items()}
            result += local_files.changes(kind, files, {**there, **binary})
    return tuple(result)
