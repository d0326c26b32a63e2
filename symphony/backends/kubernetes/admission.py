"""Asks the API server why it refuses the pods of processes that were not created: quotas and limit ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.api.client import Client, Refused, path_of
from symphony.backends.kubernetes.api.fields import Values, mapping
from symphony.plan.names import as_label

# The words of ResourceQuota and LimitRanger; other plugins may judge what the dry run leaves out.
_OF_AMOUNTS = re.compile(r"(?:exceeded|failed) quota: |(?:usage|ratio) per (?:Container|Pod)")
# The import of placement.pool, which has the name of GPUs, takes 13 ms of a reading command.
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
# So that Pod Security accepts the dry run.
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def refusals(client: Client, namespace: str, processes: Mapping[str, Values]) -> dict[str, str]:
    """Return why quotas and limit ranges refuse each process now, by path; empty texts if none does.

    The API server answers a dry run of a pod with the declared amounts, once for equal pods.

    Args:
        client: The client of the cluster.
        namespace: The namespace of the experiment.
        processes: The declared settings by path, of all processes of their pods.
    """
    containers: dict[str, list[Values]] = {}
    for path, declared in processes.items():
        pod, _, name = path.rpartition("/")
        containers.setdefault(pod or name, []).append(_container(name, declared))
    refused: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for path in processes:
        pod = containers[path.partition("/")[0]]
        amounts = json.dumps([container["resources"] for container in pod])
        if amounts not in refused:
            refused[amounts] = _refusal(client, namespace, pod)
        reasons[path] = refused[amounts]
    return reasons


def _container(name: str, declared: Values) -> Values:
    resources: dict[str, Any] = {}
    for kind, setting in (("requests", "resource_request"), ("limits", "resource_limit")):
        amounts = mapping(declared, setting)
        resources[kind] = {
            resource: str(amounts[key])
            for key, resource in _RESOURCES.items()
            if amounts.get(key) is not None
        }
    return {"name": as_label(name), "image": "any", "resources": resources, "securityContext": _RESTRICTED}


def _refusal(client: Client, namespace: str, containers: list[Values]) -> str:
    metadata = {"generateName": "symphony-dry-run-"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    try:
        client.request("POST", path_of("pods", namespace), {"dryRun": "All"}, pod)
    except Refused as refused:
        if _OF_AMOUNTS.search(refused.what):
            return refused.what.partition("is forbidden: ")[2] or refused.what
    return ""
