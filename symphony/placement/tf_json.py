"""Reads the `.tf.json` that cloudwise writes: a cluster with its node pools."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from symphony.errors import UserError
from symphony.placement.machines import MIB, gpu_type_of
from symphony.placement.pool import EFFECTS, Pool, Taint

TfJson = str | os.PathLike[str] | Mapping[str, Any]
_POOLS = "resource.google_container_node_pool"
_EMPTY: Mapping[str, Any] = {}
# What is read of a node pool and of its node_config; all else is lost.
_READ = ("name", "cluster", "zone", "location", "node_locations", "initial_node_count", "node_count",
         "autoscaling", "node_config", "depends_on", "management", "provider")  # fmt: skip
_READ_OF_NODES = ("machine_type", "disk_size_gb", "labels", "taint", "guest_accelerator", "preemptible",
                  "spot", "oauth_scopes")  # fmt: skip
# What a GkeCluster says by itself.
_READ_OF_CLUSTER = ("name", "zone", "location", "region", "initial_node_count", "remove_default_node_pool",
                    "additional_zones", "node_locations", "node_pool", "project", "node_config")  # fmt: skip


class MissingError(UserError, KeyError):
    """A node pool or a field is not there; a KeyError as in the original."""


@dataclass(frozen=True)
class TfCluster:
    """A cluster as cloudwise describes it.

    pools:   in the order of the file. entries: name of the pool -> what the file says.
    disks:   name of the pool -> GB of its boot disk.
    lost:    what the file says and nothing here means.
    """

    name: str
    location: str
    pools: tuple[Pool, ...]
    entries: Mapping[str, Mapping[str, Any]]
    disks: Mapping[str, int] = field(default_factory=dict[str, int])
    lost: tuple[str, ...] = ()


def read(given: TfJson) -> TfCluster:
    """What a file, or its content, says. UserError: every field that is wrong, with its pool."""
    data, where = _content(given)
    resources = _mapping(data.get("resource"))
    entries = dict(_mapping(resources.get("google_container_node_pool")))
    if not entries:
        remedy = "Give a .tf.json that cloudwise wrote"
        raise MissingError(f"there is no {_POOLS} with node pools", where=where, remedy=remedy)
    wrong = [f"node pool {name}: {fault}" for name, each in entries.items() for fault in _faults(each)]
    if wrong:
        error = UserError(wrong[0], where=where, remedy="Correct it, or have cloudwise write the file again")
        error.details = tuple(f"  {each}" for each in wrong[1:])
        raise error
    cluster_name, cluster = _cluster(resources)
    home = str(cluster.get("location") or cluster.get("zone") or cluster.get("region") or "")
    pools = tuple(_pool(name, each, cluster) for name, each in entries.items())
    disks = {
        name: int(size)
        for name, each in entries.items()
        if (size := _number(_block(each["node_config"]).get("disk_size_gb")))
    }
    return TfCluster(cluster_name, home, pools, entries, disks, tuple(_lost(data, cluster, entries)))


def _content(given: TfJson) -> tuple[Mapping[str, Any], str]:
    """The content, and the file where there is one."""
    if isinstance(given, Mapping):
        return given, ""
    path = Path(given).expanduser()
    try:
        data = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        raise UserError(
            f"could not read the .tf.json: {why}", where=str(path), remedy="Give its path"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}", where=str(path), remedy="Have it written again") from None
    if not isinstance(data, Mapping):
        raise UserError("it is not a mapping", where=str(path), remedy="Give a .tf.json that cloudwise wrote")
    return cast("Mapping[str, Any]", data), str(path)


def _faults(entry: object) -> Iterator[str]:
    """What is wrong with a node pool, field by field."""
    if not isinstance(entry, Mapping):
        yield "is not a mapping"
        return
    entry = cast("Mapping[str, Any]", entry)
    config = _block(entry.get("node_config"))
    yield from _miscounted(entry, config)
    if not config:
        yield "has no node_config"
        return
    labels = config.get("labels")
    if not isinstance(labels, Mapping):
        yield "has no node_config.labels"
        return
    labels = cast("Mapping[str, Any]", labels)
    if not isinstance(labels.get("name"), str) or not labels["name"]:
        yield f"node_config.labels.name is {'no text' if 'name' in labels else 'missing'}"
    for field_, is_whole in (("cpu", False), ("memory_m", False), ("gpu_count", True)):
        if field_ not in labels:
            if field_ != "gpu_count" or labels.get("gpu_type"):
                yield f"node_config.labels.{field_} is missing"
            continue
        number = _number(labels[field_])
        if number is None or number <= 0 or (is_whole and number % 1):
            takes = "a whole number above 0" if is_whole else "a number above 0"
            yield f"node_config.labels.{field_} is {labels[field_]!r:.40}, not {takes}"
    for i, taint in enumerate(_blocks(config.get("taint"))):
        if not isinstance(taint.get("key"), str):
            yield f"node_config.taint[{i}].key is missing"
        if taint.get("effect") not in (*EFFECTS, *EFFECTS.values()):
            yield f"node_config.taint[{i}].effect is {taint.get('effect')!r:.40}, not {', '.join(EFFECTS)}"


def _miscounted(entry: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    scaling, accelerator = _block(entry.get("autoscaling")), _block(config.get("guest_accelerator"))
    for name, value in (
        ("node_count", entry.get("node_count")),
        ("initial_node_count", entry.get("initial_node_count")),
        ("autoscaling.min_node_count", scaling.get("min_node_count")),
        ("autoscaling.max_node_count", scaling.get("max_node_count")),
        ("node_config.disk_size_gb", config.get("disk_size_gb")),
        ("node_config.guest_accelerator.count", accelerator.get("count")),
    ):
        number = _number(value)
        if value is not None and (number is None or number < 0 or number % 1):
            yield f"{name} is {value!r:.40}, not a whole number"


def _cluster(resources: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    for key, cluster in _mapping(resources.get("google_container_cluster")).items():
        block = _block(cluster)
        return str(block.get("name") or key), block
    return "cluster", _EMPTY


def _pool(name: str, entry: Mapping[str, Any], cluster: Mapping[str, Any]) -> Pool:
    config = _block(entry["node_config"])
    labels: Mapping[str, Any] = config["labels"]
    zones = _zones(entry) or _zones(cluster)
    scaling = _block(entry.get("autoscaling"))
    fixed = entry.get("node_count", entry.get("initial_node_count"))
    # Terraform counts the machines of one zone.
    times = max(1, len(zones))
    least, most = scaling.get("min_node_count", 0), scaling.get("max_node_count")
    if not scaling and fixed is not None:
        least = most = fixed
    accelerator = _block(config.get("guest_accelerator"))
    gpus = int(_number(labels.get("gpu_count", accelerator.get("count", 0))) or 0)
    gpu_type = str(labels.get("gpu_type") or accelerator.get("type") or "")
    return Pool(
        name=name,
        machine_type=str(config.get("machine_type") or ""),
        cpu=_number(labels["cpu"]) or 0,
        memory=int((_number(labels["memory_m"]) or 0) * MIB),
        labels={str(key): str(value) for key, value in labels.items()},
        taints=tuple(
            Taint(each["key"], str(each.get("value") or ""), _effect(each))
            for each in _blocks(config.get("taint"))
        ),
        gpu_type=gpu_type_of(gpu_type) if gpus else "",
        gpus=gpus,
        min=int(_number(least) or 0) * times,
        max=None if (count := _number(most)) is None else int(count) * times,
        spot=bool(config.get("spot") or config.get("preemptible")),
        zones=zones,
        selector={"name": str(labels["name"])},
    )


def _effect(taint: Mapping[str, Any]) -> str:
    return EFFECTS.get(str(taint["effect"]), str(taint["effect"]))


def _zones(of: Mapping[str, Any]) -> tuple[str, ...]:
    more = of.get("node_locations") or of.get("additional_zones") or ()
    every = [of.get("zone") or "", *(cast("list[Any]", more) if isinstance(more, (list, tuple)) else [more])]
    return tuple(dict.fromkeys(str(each) for each in every if each))


def _lost(
    data: Mapping[str, Any], cluster: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """What the file says beside what is read."""
    for key in (each for each in data if each != "resource"):
        yield from (f"{key}.{each}" for each in _mapping(data[key]))
    for kind, things in _mapping(data["resource"]).items():
        if kind not in ("google_container_cluster", "google_container_node_pool"):
            yield from (f"resource.{kind}.{each}" for each in _mapping(things))
    clusters = _mapping(data["resource"].get("google_container_cluster"))
    yield from (f"resource.google_container_cluster.{each}" for each in list(clusters)[1:])
    yield from (f"cluster {key}" for key in cluster if key not in _READ_OF_CLUSTER)
    for name, entry in entries.items():
        yield from (f"node pool {name}: {key}" for key in entry if key not in _READ)
        config = _block(entry["node_config"])
        yield from (f"node pool {name}: node_config.{key}" for key in config if key not in _READ_OF_NODES)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else _EMPTY


def _block(value: object) -> Mapping[str, Any]:
    """A block of Terraform: a mapping, or a list of one."""
    return next(iter(_blocks(value)), _EMPTY)


def _blocks(value: object) -> list[Mapping[str, Any]]:
    every = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [cast("Mapping[str, Any]", each) for each in every if isinstance(each, Mapping)]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
