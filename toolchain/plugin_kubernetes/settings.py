"""The arguments of the provider resource, read once at Configure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from toolchain.plugin_kubernetes.api import access
from toolchain.plugins.failures import Failure
from toolchain.plugins.values import UNKNOWN


@dataclass(frozen=True)
class Settings:
    """What the stand-in honours; of the rest it says that it does not."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    patch_force: bool = False
    upsert: bool = False
    delete_unreachable: bool = False
    mutable: frozenset[str] = frozenset()
    known: bool = True


def read(arguments: dict[str, Any]) -> Settings:
    """From plain arguments; `known` is False while a preview cannot tell which cluster it will be."""
    for name in ("renderYamlToDirectory",):
        if arguments.get(name):
            raise Failure(f"the stand-in plugin does not support the provider argument {name}")
    mutable = {
        kind
        for kind, name in (("ConfigMap", "enableConfigMapMutable"), ("Secret", "enableSecretMutable"))
        if _flag(
            arguments,
            name,
            f"PULUMI_K8S_{'ENABLE_CONFIGMAP' if kind == 'ConfigMap' else 'ENABLE_SECRET'}_MUTABLE",
        )
    }
    places = ("kubeconfig", "context", "cluster", "namespace")
    return Settings(
        **{name: arguments[name] for name in places if isinstance(arguments.get(name), str)},
        patch_force=_flag(arguments, "enablePatchForce", "PULUMI_K8S_ENABLE_PATCH_FORCE"),
        upsert=_flag(arguments, "upsertExistingObjects", "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"),
        delete_unreachable=_flag(arguments, "deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE"),
        mutable=frozenset(mutable),
        known=not any(arguments.get(name) is UNKNOWN for name in places),
    )


def names_another_cluster(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether all objects are replaced: the identifier decides if there is one, else the server."""
    if old.get("clusterIdentifier") or new.get("clusterIdentifier"):
        return old.get("clusterIdentifier") != new.get("clusterIdentifier")
    if UNKNOWN in (new.get("kubeconfig"), new.get("context"), new.get("cluster")):
        return False
    return _server(old) != _server(new)


def _server(arguments: dict[str, Any]) -> str:
    settings = read(arguments)
    try:
        return access.load(settings.kubeconfig, settings.context, settings.cluster).server
    except Failure:
        return settings.kubeconfig


def _flag(arguments: dict[str, Any], name: str, variable: str) -> bool:
    value = arguments.get(name, os.environ.get(variable, ""))
    return value is True or str(value).lower() == "true"
