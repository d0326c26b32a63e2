"""Reads the node pools of a cluster from a `.tf.json` that cloudwise wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from symphony.errors import UserError
from symphony.files import read_source
from symphony.placement.machines import MIB, gpu_type_of
from symphony.placement.pool import EFFECTS, Pool, Taint

TfJson = str | os.PathLike[str] | Mapping[str, Any]
_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[float, Meta(gt=0)]


class MissingError(UserError, KeyError):
    """A node pool is missing; also a KeyError, as in the original Symphony."""


class _Labels(msgspec.Struct):
    """Labels of a machine; cpu and memory_m (MiB) are its whole size, not what is allocatable."""

    name: Annotated[str, Meta(min_length=1)]
    cpu: _Amount
    memory_m: _Amount
    gpu_type: str = ""
    gpu_count: _Count = 0

    def __post_init__(self) -> None:
        if self.gpu_type and not self.gpu_count:
            raise ValueError("gpu_count is missing beside gpu_type")


class _Taint(msgspec.Struct):
    key: str
    effect: str
    value: str = ""

    def __post_init__(self) -> None:
        self.effect = EFFECTS.get(self.effect, self.effect)
        if self.effect not in EFFECTS.values():
            raise ValueError(f"effect is {self.effect!r:.40}, not one of {', '.join(EFFECTS)}")


class _Accelerator(msgspec.Struct):
    type: str = ""
    count: _Count = 0


class _NodeConfig(msgspec.Struct):
    labels: _Labels
    machine_type: str = ""
    taint: list[_Taint] = []
    guest_accelerator: _Accelerator = msgspec.field(default_factory=_Accelerator)
    preemptible: bool = False
    spot: bool = False


class _Autoscaling(msgspec.Struct):
    min_node_count: _Count = 0
    max_node_count: _Count | None = None


class _Located(msgspec.Struct):
    """A cluster, or the fields that a node pool has in common with it."""

    zone: str = ""
    node_locations: list[str] = []
    additional_zones: list[str] = []
    initial_node_count: _Count | None = None

    @property
    def zones(self) -> tuple[str, ...]:
        zones = [self.zone, *(self.node_locations or self.additional_zones)]
        return tuple(dict.fromkeys(filter(None, zones)))


class _NodePool(_Located, kw_only=True):
    node_config: _NodeConfig
    node_count: _Count | None = None
    autoscaling: _Autoscaling | None = None


@dataclass(frozen=True)
class TfPools:
    """The node pools as cloudwise describes them.

    pools: in the order of the file. entries: pool name -> its content in the file.
    """

    pools: tuple[Pool, ...]
    entries: Mapping[str, Mapping[str, Any]]


def read_pools(file: TfJson) -> TfPools:
    """Return the node pools in a file, or in its content.

    Raises:
        UserError: A field is wrong; the error names it and its pool, the details name further fields.
    """
    data, where = _content(file)
    resources = _mapping(data.get("resource"))
    entries = dict(_mapping(resources.get("google_container_node_pool")))
    if not entries:
        what = "the file has no node pools (resource.google_container_node_pool)"
        raise MissingError(what, where=where, remedy="Use a .tf.json that cloudwise wrote")
    clusters = [*_mapping(resources.get("google_container_cluster")).values()]
    faults: list[str] = []
    cluster = (_read(_Located, clusters[0], "cluster", faults) if clusters else None) or _Located()
    node_pools: dict[str, _NodePool] = {}
    for name, entry in entries.items():
        if (node_pool := _read(_NodePool, entry, f"node pool {name}", faults)) is not None:
            node_pools[name] = node_pool
    if faults:
        remedy = "Correct that field, or have cloudwise write the file again"
        error = UserError(faults[0], where=where, remedy=remedy)
        error.details = tuple(f"  {fault}" for fault in faults[1:])
        raise error
    pools = tuple(_pool(name, node_pool, entries[name], cluster) for name, node_pool in node_pools.items())
    return TfPools(pools, entries)


def _content(file: TfJson) -> tuple[Mapping[str, Any], str]:
    """Return the content, and the path of the file if it is a file."""
    if isinstance(file, Mapping):
        return file, ""
    path = Path(file).expanduser()
    try:
        data = json.loads(read_source(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise UserError(
            f"could not read the .tf.json: {why}", where=str(path), remedy="Check the path"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the .tf.json is not JSON: {error}",
            where=str(path),
            remedy="Write the file again with cloudwise",
        ) from None
    if not isinstance(data, Mapping):
        what = "the .tf.json is not a JSON object"
        raise UserError(what, where=str(path), remedy="Use a .tf.json that cloudwise wrote")
    return cast("Mapping[str, Any]", data), str(path)


def _read(kind: type[Any], entry: object, label: str, faults: list[str]) -> Any:
    """Return a block as an instance of its class; None, and add a message to faults, if it is invalid."""
    try:
        return msgspec.convert(_unwrap_lists(entry), kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, path = str(error).replace("`", "").partition(" - at $")
        faults.append(f"{label}: {path.lstrip('.')}{': ' if path else ''}{what}")
        return None


def _unwrap_lists(block: Any, name: str = "") -> Any:
    """Return a block in which a list of a single block, as Terraform may write it, is that block itself."""
    if isinstance(block, Mapping):
        items = cast("Mapping[str, Any]", block).items()
        return {str(key): _unwrap_lists(value, str(key)) for key, value in items if value != []}
    if isinstance(block, (list, tuple)):
        parts: list[Any] = [_unwrap_lists(part) for part in cast("list[Any]", block)]
        is_block = len(parts) == 1 and isinstance(parts[0], Mapping) and name != "taint"
        return cast("Any", parts[0]) if is_block else parts
    return [block] if isinstance(block, str) and name in ("node_locations", "additional_zones") else block


def _pool(name: str, entry: _NodePool, raw: Mapping[str, Any], cluster: _Located) -> Pool:
    config, labels = entry.node_config, _unwrap_lists(raw)["node_config"]["labels"]
    zones = entry.zones or cluster.zones
    # Terraform's counts are for each zone.
    zone_count = max(1, len(zones))
    fixed = entry.initial_node_count if entry.node_count is None else entry.node_count
    scaling = entry.autoscaling or _Autoscaling(fixed or 0, fixed)
    gpus = config.labels.gpu_count or config.guest_accelerator.count
    gpu_type = config.labels.gpu_type or config.guest_accelerator.type
    return Pool(
        name=name,
        machine_type=config.machine_type,
        cpu=config.labels.cpu,
        memory=int(config.labels.memory_m * MIB),
        labels={name: str(label) for name, label in labels.items()},
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in config.taint),
        gpu_type=gpu_type_of(gpu_type) if gpus else "",
        gpus=gpus,
        min=scaling.min_node_count * zone_count,
        max=None if scaling.max_node_count is None else scaling.max_node_count * zone_count,
        spot=config.spot or config.preemptible,
        zones=zones,
        selector={"name": config.labels.name},
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
