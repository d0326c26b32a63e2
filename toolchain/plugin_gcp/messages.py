"""Validates clusters and pools by the published protobuf messages of GKE's API."""

import re
import sys
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from pulumi.runtime.proto import status_pb2
from pulumi.runtime.rpc import UNKNOWN

from symphony.placement.machines import find
from symphony.placement.pool import EFFECTS, GPU_TAINT, Pool, Taint, faults

# Pulumi's package has a copy of this message, and a process can register it only once.
sys.modules["google.rpc.status_pb2"] = status_pb2
from google.cloud.container_v1.types import cluster_service  # noqa: E402

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
# Fields of Terraform's resource that the message does not have.
_OWN = {
    CLUSTER: {"project", "location", "deletionProtection", "deletionPolicy", "removeDefaultNodePool"},
    POOL: {"project", "location", "cluster", "deletionPolicy", "ignoreNodeCountChanges"},
}
# The names in messages, by Terraform's.
_RENAMED = {
    "nodeLocations": "locations",
    "minMasterVersion": "initial_cluster_version",
    "guestAccelerators": "accelerators",
}
_OF_ACCELERATOR = {"count": "accelerator_count", "type": "accelerator_type"}
# Mappings whose keys are chosen by the user.
_MAPS = {"labels", "resourceLabels", "metadata", "resourceManagerTags"}
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def problems(type_: str, inputs: dict[str, Any]) -> Iterator[str]:
    """Return the errors that the API would report for a cluster or a pool."""
    known = _known(inputs)
    name = known.get("name")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        yield f'Invalid value for field "name": "{name}". Must be a match of regex "{_NAME.pattern}"'
    try:
        message(type_, known)
    except json_format.ParseError as error:
        yield f"Invalid JSON payload received. {str(error).splitlines()[0]}"
        return
    if type_ == POOL and "machineType" in known.get("nodeConfig", {}):
        pool = pool_of(known)
        yield from (f'Node pool "{pool.name}" {what}.' for _, what, _ in faults([pool], _region(known)))


def message(type_: str, inputs: dict[str, Any]) -> Any:
    """Return the message of a request. Raises ParseError for an unknown field, type or enum value."""
    content = {key: value for key, value in inputs.items() if key not in _OWN[type_]}
    kind = cluster_service.Cluster if type_ == CLUSTER else cluster_service.NodePool
    renamed = _of_cluster(content) if type_ == CLUSTER else _of_pool(content)
    return json_format.ParseDict(renamed, kind.pb()())


def pool_of(inputs: dict[str, Any]) -> Pool:
    """Return the pool as placement knows it, with the taint that GKE adds for GPUs.

    Counts for each zone are not multiplied by the number of zones; symphony sets total limits.
    """
    config = inputs.get("nodeConfig", {})
    machine = find(config["machineType"])
    gpus = next(iter(config.get("guestAccelerators") or ()), {})
    limits = inputs.get("autoscaling") or {}
    count = inputs.get("nodeCount") or inputs.get("initialNodeCount") or 0
    taints = [Taint(t["key"], t.get("value", ""), EFFECTS[t["effect"]]) for t in config.get("taints") or ()]
    number = int(gpus.get("count", machine.gpus if machine else 0))
    if number:
        taints.append(Taint(GPU_TAINT, "present"))
    return Pool(
        name=inputs.get("name", ""),
        machine_type=config["machineType"],
        cpu=machine.cpu if machine else 0,
        memory=machine.memory if machine else 0,
        labels=config.get("labels") or {},
        taints=tuple(dict.fromkeys(taints)),
        gpu_type=gpus.get("type", machine.gpu_type if machine else ""),
        gpus=number,
        min=int(limits.get("totalMinNodeCount", limits.get("minNodeCount", count))),
        max=int(limits.get("totalMaxNodeCount", limits.get("maxNodeCount", count))) or None,
        spot=bool(config.get("spot")),
        zones=tuple(inputs.get("nodeLocations") or ()),
    )


def _of_cluster(content: dict[str, Any]) -> dict[str, Any]:
    result = _snake(content)
    if "networking_mode" in result:
        aliased = result.pop("networking_mode") == "VPC_NATIVE"
        result["ip_allocation_policy"] = {**result.get("ip_allocation_policy", {}), "use_ip_aliases": aliased}
    if "enable_shielded_nodes" in result:
        result["shielded_nodes"] = {"enabled": result.pop("enable_shielded_nodes")}
    return result


def _of_pool(content: dict[str, Any]) -> dict[str, Any]:
    result = _snake(content)
    if "node_config" in result:
        result["config"] = result.pop("node_config")
    if "max_pods_per_node" in result:
        result["max_pods_constraint"] = {"max_pods_per_node": result.pop("max_pods_per_node")}
    if "autoscaling" in result:
        result["autoscaling"]["enabled"] = True
    if "node_count" in result:
        result["initial_node_count"] = result.pop("node_count")
    return result


def _snake(value: Any, inside: str = "") -> Any:
    if isinstance(value, list):
        return [_snake(item, inside) for item in value]
    if not isinstance(value, dict) or inside in _MAPS:
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        own = _OF_ACCELERATOR.get(key) if inside == "guestAccelerators" else None
        name = own or _RENAMED.get(key) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()
        result[name] = _snake(item, key)
    return result


def _known(value: Any) -> Any:
    """Return the value without parts that are unknown in a preview."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if item != UNKNOWN}
    if isinstance(value, list):
        return [_known(item) for item in value if item != UNKNOWN]
    return value


def _region(inputs: dict[str, Any]) -> str:
    location = inputs.get("location", "")
    return location if isinstance(location, str) else ""
