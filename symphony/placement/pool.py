"""A pool of like machines, as a frozen value: from the outputs of a cluster's stack or from its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symphony.placement.machines import GIB, MIB

POOL_LABEL = "cloud.google.com/gke-nodepool"
GPU_LABEL = "cloud.google.com/gke-accelerator"
SPOT_LABEL = "cloud.google.com/gke-spot"
GPU_TAINT = "nvidia.com/gpu"
# Google's names of the effects of taints, and those of Kubernetes.
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}


# (amount, part of it that is reserved), from cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
_MEMORY_STEPS = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))


_CPU_STEPS = ((1, 0.06), (1, 0.01), (2, 0.005), (float("inf"), 0.0025))


_EVICTION = 100 * MIB


# Beside the formula, of e2-micro, e2-small and e2-medium: 940m are left of what shows as 2 vCPUs.
_OF_SHARED_CORES = 1060


# The kernel keeps 64 bytes for each page of memory, and its image.
_KERNEL = (1 / 64, 128 * MIB)


_PODS_OF_A_NODE = 110


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


@dataclass(frozen=True)
class SystemPod:
    """A pod that GKE runs on every machine, with its requests; gpus_only: on machines with GPUs."""

    name: str
    amounts: Amounts
    gpus_only: bool = False


SYSTEM_PODS = (
    SystemPod("fluentbit-gke", Amounts(100, 200 * MIB, pods=1)),
    SystemPod("gke-metadata-server", Amounts(100, 100 * MIB, pods=1)),
    SystemPod("gke-metrics-agent", Amounts(10, 110 * MIB, pods=1)),
    SystemPod("kube-proxy", Amounts(100, 0, pods=1)),
    SystemPod("netd", Amounts(2, 30 * MIB, pods=1)),
    SystemPod("node-local-dns", Amounts(25, 20 * MIB, pods=1)),
    SystemPod("pdcsi-node", Amounts(10, 20 * MIB, pods=1)),
    SystemPod("gmp-collector", Amounts(9, 68 * MIB, pods=1)),
    SystemPod("nvidia-gpu-device-plugin", Amounts(50, 50 * MIB, pods=1), gpus_only=True),
)
# Pods that run once in a cluster, such as kube-dns and metrics-server, may be on a machine without taints.
_CLUSTER_PODS = SystemPod("kube-dns", Amounts(340, 330 * MIB, pods=6))


def allocatable(pool: Pool) -> Amounts:
    """Return what a node reports as allocatable: the machine less the reserve of GKE and the kernel."""
    if pool.allocatable is not None:
        return pool.allocatable
    part, fixed = _KERNEL
    reserved = _steps(pool.memory / GIB, _MEMORY_STEPS) * GIB + _EVICTION
    memory = pool.memory - int(pool.memory * part) - fixed - int(reserved)
    cpu = int(pool.cpu * 1000) - round(_steps(pool.cpu, _CPU_STEPS) * 1000)
    if pool.machine_type in ("e2-micro", "e2-small", "e2-medium"):
        cpu = 2000 - _OF_SHARED_CORES
    return Amounts(cpu, max(0, memory), pool.gpus, _PODS_OF_A_NODE)


def available(pool: Pool) -> Amounts:
    """Return what is left for experiments; the pools of live nodes are already without the system pods."""
    if pool.allocatable is not None:
        return pool.allocatable
    left = allocatable(pool)
    for each in system_pods(pool):
        left -= each.amounts
    return left


def system_pods(pool: Pool) -> tuple[SystemPod, ...]:
    """Return the pods that run, or may run, on every machine of the pool."""
    keeps_off = pool.gpus or any(taint.effect != "PreferNoSchedule" for taint in pool.taints)
    own = tuple(each for each in SYSTEM_PODS if pool.gpus or not each.gpus_only)
    return own if keeps_off else (*own, _CLUSTER_PODS)


def _steps(amount: float, steps: tuple[tuple[float, float], ...]) -> float:
    reserved = 0.0
    for size, part in steps:
        reserved += min(amount, size) * part
        amount = max(0.0, amount - size)
    return reserved
