"""The volumes of a pod and where its containers mount them. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from symphony.backends.kubernetes.manifests import labels
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan
from symphony.spec.mounts import (
    MOUNT_KINDS,
    EmptyDirMount,
    GitRepoMount,
    HostPathMount,
    Mount,
    NfsMount,
    SecretMount,
    SharedMemoryMount,
)

SECRETS_VOLUME = "symphony-secrets"
SECRETS_FOLDER = "/etc/secrets"
CONFIGS_VOLUME = "symphony-configs"
CONFIGS_FOLDER = "/etc/configs"
# What no volume of a user's may be called.
OWN = (SECRETS_VOLUME, CONFIGS_VOLUME)
# The owner may read, and the group that the pod is given (see pods.py), whoever the image runs as.
SECRETS_MODE = 0o440

_KIND_OF = {kind: name.replace("_", "-") for name, kind in MOUNT_KINDS.items()}


def name_of(mount: Mount) -> str:
    """The name of the volume: what the user calls it, else one made of what is mounted.

    What has the same name and source is one volume, however many processes of the pod mount it.
    """
    if mount.name:
        return mount.name
    facts = json.dumps([type(mount).__name__, _source_facts(mount)], sort_keys=True)
    return f"{_KIND_OF[type(mount)]}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def volumes(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """One volume for each name, in the order in which they are first mounted."""
    first: dict[str, Mount] = {}
    for mount in mounts:
        first.setdefault(name_of(mount), mount)
    return [{"name": name, **source(mount)} for name, mount in first.items()]


def source(mount: Mount) -> dict[str, Any]:
    """What is mounted, as Kubernetes writes it."""
    match mount:
        case NfsMount(server=server, path=path):
            return {"nfs": {"server": server, "path": path}}
        case SecretMount(secret_name=secret, default_mode=mode):
            return {"secret": {"secretName": secret} | ({} if mode is None else {"defaultMode": mode})}
        case HostPathMount(path=path, hostpath_type=kind):
            return {"hostPath": {"path": path} | ({"type": kind} if kind else {})}
        case EmptyDirMount(use_memory=True) | SharedMemoryMount():
            return {"emptyDir": {"medium": "Memory"}}
        case _:
            # A git repository is cloned into an empty folder by an init container.
            return {"emptyDir": {}}


def mounted(mounts: Iterable[Mount]) -> list[dict[str, Any]]:
    """Where one container mounts them."""
    return [{"name": name_of(mount), "mountPath": mount.mount_path} for mount in mounts]


def repositories(mounts: Iterable[Mount]) -> dict[str, GitRepoMount]:
    """volume -> the git repository to clone into it."""
    return {name_of(mount): mount for mount in mounts if isinstance(mount, GitRepoMount)}


def files_volumes(plan: Plan, settings: Settings) -> list[dict[str, Any]]:
    """The volumes of the experiment's secret and config files."""
    secret = {"secretName": settings.named(labels.SECRETS), "defaultMode": SECRETS_MODE}
    result: list[dict[str, Any]] = [{"name": SECRETS_VOLUME, "secret": secret}] if plan.secrets else []
    configs = {"name": settings.named(labels.CONFIGS)}
    return result + ([{"name": CONFIGS_VOLUME, "configMap": configs}] if plan.configs else [])


def files_mounts(plan: Plan) -> list[dict[str, Any]]:
    """Where every container finds these files."""
    every = ((plan.secrets, SECRETS_VOLUME, SECRETS_FOLDER), (plan.configs, CONFIGS_VOLUME, CONFIGS_FOLDER))
    return [{"name": name, "mountPath": folder, "readOnly": True} for files, name, folder in every if files]


def _source_facts(mount: Mount) -> dict[str, Any]:
    fields = dataclasses.fields(mount)
    return {
        each.name: getattr(mount, each.name) for each in fields if each.name not in ("mount_path", "where")
    }
