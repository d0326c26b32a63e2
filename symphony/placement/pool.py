"""A pool of like machines, as a frozen value: from the outputs of a cluster's stack or from its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

POOL_LABEL = "cloud.google.com/gke-nodepool"
GPU_LABEL = "cloud.google.com/gke-accelerator"
SPOT_LABEL = "cloud.google.com/gke-spot"
GPU_TAINT = "nvidia.com/gpu"
# Google's names of the effects of taints, and those of Kubernetes.
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}


@dataclass(frozen=True)
class Taint:
    """A taint of a machine; effect as Kubernetes writes it: NoSchedule, PreferNoSchedule, NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Amounts:
    """cpu in thousandths of a core, memory in bytes, gpus and pods as counts."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    pods: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.cpu + other.cpu, self.memory + other.memory, self.gpus + other.gpus, self.pods + other.pods
        )

    def holds(self, other: Amounts) -> bool:
        """Return whether none of the other amounts is larger."""
        return (
            self.cpu >= other.cpu
            and self.memory >= other.memory
            and self.gpus >= other.gpus
            and self.pods >= other.pods
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return self + Amounts(-other.cpu, -other.memory, -other.gpus, -other.pods)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool of like machines.

    labels:       of each machine, those beside the ones that GKE gives by itself.
    taints:       of each machine, all.
    cpu:          vCPUs of one machine.
    memory:       bytes of one machine.
    gpu_type:     as GKE names it: "nvidia-tesla-v100"; empty where gpus is 0.
    gpus:         of one machine.
    min, max:     how many machines in all zones; max None: not known.
    selector:     the labels by which the pool is chosen; by default GKE's own with its name.
    allocatable:  what one machine offers to pods, where live nodes tell; None: it is computed.
    """

    name: str
    machine_type: str
    cpu: float
    memory: int
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    gpu_type: str = ""
    gpus: int = 0
    min: int = 0
    max: int | None = None
    spot: bool = False
    zones: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict[str, str])
    allocatable: Amounts | None = None

    @property
    def selects(self) -> Mapping[str, str]:
        """The labels that a node selector names to choose the pool."""
        return self.selector or {POOL_LABEL: self.name}

    @property
    def node_labels(self) -> Mapping[str, str]:
        """Every label that is known to be on each of its machines, those that GKE gives too."""
        labels = {**self.selects, **self.labels}
        if not self.selector:
            labels["node.kubernetes.io/instance-type"] = self.machine_type
            if self.gpus:
                labels[GPU_LABEL] = self.gpu_type
            if self.spot:
                labels[SPOT_LABEL] = "true"
            if len(self.zones) == 1:
                labels["topology.kubernetes.io/zone"] = self.zones[0]
        return labels

    def to_json(self) -> dict[str, Any]:
        """Return the pool as the `pools` output of a cluster's stack holds it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Pool:
        """Return the pool of to_json(). KeyError, TypeError, ValueError: it is another value."""
        allocatable = given.get("allocatable")
        read: dict[str, Any] = {name: int(given[name]) for name in ("memory", "gpus", "min")}
        read["max"] = None if given["max"] is None else int(given["max"])
        read["taints"] = tuple(Taint(**each) for each in given["taints"])
        read["zones"] = tuple(given["zones"])
        if allocatable is not None:
            read["allocatable"] = Amounts(**{name: int(value) for name, value in allocatable.items()})
        return cls(**{**given, **read})
