"""Pools of identical machines, from the outputs of a cluster's stack or from its nodes, and their prices.

Prices are a dated table of dollars an hour, by family, vCPU, GiB and GPU.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from symphony.placement import machines
from symphony.placement.machines import GIB, MIB

POOL_LABEL = "cloud.google.com/gke-nodepool"
GPU_LABEL = "cloud.google.com/gke-accelerator"
SPOT_LABEL = "cloud.google.com/gke-spot"
# GKE taints nodes with GPUs, with a key that is the name of the resource.
GPU_RESOURCE = GPU_TAINT = "nvidia.com/gpu"
# A taint's effect as Google names it -> as Kubernetes names it.
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
# (amount, reserved fraction), from cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
_MEMORY_STEPS = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
_CPU_STEPS = ((1, 0.06), (1, 0.01), (2, 0.005), (float("inf"), 0.0025))
_EVICTION = 100 * MIB
# e2-micro, e2-small and e2-medium do not follow the formula: 940m of their 2 vCPUs are allocatable.
_SHARED_CORE_RESERVE = 1060
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
        """Return whether every amount is at least as large as the other's."""
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
    """A pool of identical machines.

    labels:       labels of each machine, besides GKE's own labels.
    taints:       all taints of each machine.
    cpu:          vCPUs of a machine.
    memory:       bytes of a machine.
    gpu_type:     GKE's name, such as "nvidia-tesla-v100"; empty if gpus is 0.
    gpus:         GPUs of a machine.
    min, max:     the number of machines in all zones; max is None if unknown.
    selector:     the labels that select the pool's nodes; by default GKE's label with the pool's name.
    allocatable:  the amounts that each live node has free for experiments; None to compute them.
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
        """The labels that a node selector uses to choose the pool."""
        return self.selector or {POOL_LABEL: self.name}

    @property
    def node_labels(self) -> Mapping[str, str]:
        """All known labels of its machines, including GKE's own."""
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
        """Return the pool as in the `pools` output of a cluster's stack."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pool:
        """Return the pool that to_json() converted; raise ValueError for other data."""
        # In a state, every number is a float.
        return msgspec.convert(data, cls, strict=False)


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
    """Return what a node offers to pods, those of the system included, by Google's formula."""
    part, fixed = _KERNEL
    reserved = _steps(pool.memory / GIB, _MEMORY_STEPS) * GIB + _EVICTION
    memory = pool.memory - int(pool.memory * part) - fixed - int(reserved)
    cpu = int(pool.cpu * 1000) - round(_steps(pool.cpu, _CPU_STEPS) * 1000)
    if pool.machine_type in ("e2-micro", "e2-small", "e2-medium"):
        cpu = 2000 - _SHARED_CORE_RESERVE
    return Amounts(cpu, max(0, memory), pool.gpus, _PODS_OF_A_NODE)


def available(pool: Pool) -> Amounts:
    """Return what is left for experiments beside the system pods."""
    if pool.allocatable is not None:
        return pool.allocatable
    left = allocatable(pool)
    for pod in system_pods(pool):
        left -= pod.amounts
    return left


def system_pods(pool: Pool) -> tuple[SystemPod, ...]:
    """Return the pods that run, or may run, on every machine of the pool."""
    is_reserved = pool.gpus or any(taint.effect != "PreferNoSchedule" for taint in pool.taints)
    node_pods = tuple(pod for pod in SYSTEM_PODS if pool.gpus or not pod.gpus_only)
    return node_pods if is_reserved else (*node_pods, _CLUSTER_PODS)


def _steps(amount: float, steps: tuple[tuple[float, float], ...]) -> float:
    reserved = 0.0
    for size, part in steps:
        reserved += min(amount, size) * part
        amount = max(0.0, amount - size)
    return reserved


def faults(pools: Sequence[Pool], location: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (pool, what is wrong, remedy); location: the region or zone of the cluster."""
    for name, times in Counter(pool.name for pool in pools).items():
        if times > 1:
            yield name, f"is declared {times} times", "give each pool a different name"
    for pool in pools:
        for what, remedy in _pool_faults(pool, location):
            yield pool.name, what, remedy


def unknown_machines(pools: Sequence[Pool]) -> Iterator[str]:
    """Yield a warning for each pool without sizes whose machine type the table, which ages, lacks."""
    for pool in pools:
        if pool.machine_type and not pool.cpu and machines.find(pool.machine_type) is None:
            similar = difflib.get_close_matches(pool.machine_type, machines.known(), n=1)
            suggestion = f" Did you mean {similar[0]}?" if similar else ""
            what = f"symphony does not know the machine type {pool.machine_type} of pool {pool.name}"
            yield f"{what}.{suggestion} Set cpus=, memory_gb= and gpus=, or no process is placed on it."


def _pool_faults(pool: Pool, location: str) -> Iterator[tuple[str, str]]:
    machine = machines.find(pool.machine_type)
    if not pool.machine_type:
        yield "has no machine type", "set one, such as n1-standard-8"
    elif (
        machine is not None and pool.gpus and (fault := machines.gpu_fault(machine, pool.gpu_type, pool.gpus))
    ):
        yield f"cannot have its GPUs: {fault}", "choose another machine type, GPU type or number of GPUs"
    if pool.min < 0 or (pool.max is not None and pool.max < 1):
        yield f"has min {pool.min} and max {pool.max}", "set min to 0 or more, and max to 1 or more"
    elif pool.max is not None and pool.min > pool.max:
        yield f"has min {pool.min} above max {pool.max}", "raise max or lower min"
    region = "-".join(location.split("-")[:2])
    if location and (far := [zone for zone in pool.zones if zone.rpartition("-")[0] != region]):
        remedy = f"the cluster is in {location}: choose zones such as {region}-a"
        yield f"is in {', '.join(far)}, outside of {region}", remedy


@dataclass(frozen=True)
class Rates:
    """Dollars an hour: (vCPU, GiB) by family of machine types, and a GPU by its type."""

    machines: Mapping[str, tuple[float, float]]
    gpus: Mapping[str, float]


@dataclass(frozen=True)
class Prices:
    """List prices: their month and region, and the rates on demand and of spot machines."""

    date: str
    region: str
    on_demand: Rates
    spot: Rates

    @property
    def month_and_region(self) -> str:
        """The month and region of the prices."""
        return f"{self.date}, {self.region}"

    def hourly(self, pool: Pool) -> float | None:
        """Return the dollars an hour for a machine of a pool; None if the price is unknown."""
        rates = self.spot if pool.spot else self.on_demand
        machine = machines.find(pool.machine_type)
        if machine is None or machine.is_custom or machine.family not in rates.machines:
            return None
        if pool.gpus and pool.gpu_type not in rates.gpus:
            return None
        gpu_price = pool.gpus * rates.gpus[pool.gpu_type] if pool.gpus else 0.0
        cpu_price, gib_price = rates.machines[machine.family]
        return machine.billed * cpu_price + machine.memory / GIB * gib_price + gpu_price


# As of 2025-03-06, from pricing.yml of github.com/Cyclenerd/google-cloud-pricing-cost-calculator. If a family
# has a single ratio of memory, the vCPU's price includes its GiB; the GPU price of an A3 includes its share
# of the machine. Custom types cost more than their family; spot GPUs of an N1 are not listed.
LIST_PRICES = Prices(
    date="2025-03",
    region="us-central1",
    on_demand=Rates(
        {
            "n1": (0.031611, 0.004237),
            "e2": (0.02181159, 0.00292353),
            "n2": (0.031611, 0.004237),
            "n2d": (0.027502, 0.003686),
            "n4": (0.032578, 0.003702),
            "c2": (0.052202, 0),
            "c2d": (0.029563, 0.003959),
            "c3": (0.03465, 0.003938),
            "c3d": (0.029563, 0.003959),
            "t2d": (0.042246, 0),
            "t2a": (0.0385, 0),
            "g2": (0.036698, 0),
            "a2": (0.031611, 0.004237),
            "a3": (0, 0),
        },
        {
            "nvidia-tesla-t4": 0.35,
            "nvidia-tesla-p4": 0.60,
            "nvidia-tesla-v100": 2.48,
            "nvidia-tesla-p100": 1.46,
            "nvidia-l4": 0.56004,
            "nvidia-tesla-a100": 2.933908,
            "nvidia-a100-80gb": 3.969176,
            "nvidia-h100-80gb": 11.06125,
        },
    ),
    spot=Rates(
        {
            "n1": (0.00878, 0.001126),
            "e2": (0.00872, 0.001169),
            "n2": (0.00976, 0.001307),
            "n2d": (0.00544, 0.000728),
            "n4": (0.01274, 0.001448),
            "c2": (0.008818, 0),
            "c2d": (0.0081, 0.001086),
            "c3": (0.00604, 0.000808),
            "c3d": (0.01005, 0.001346),
            "t2d": (0.005872, 0),
            "t2a": (0.010136, 0),
            "g2": (0.014208, 0),
            "a2": (0.01264, 0.001695),
            "a3": (0, 0),
        },
        {
            "nvidia-l4": 0.2231,
            "nvidia-tesla-a100": 0.9976,
            "nvidia-a100-80gb": 1.587638,
            "nvidia-h100-80gb": 4.424469,
        },
    ),
)
