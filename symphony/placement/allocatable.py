"""The resources that a machine of a GKE pool offers: its size less GKE's reserve and its system pods."""

from __future__ import annotations

from dataclasses import dataclass

from symphony.placement.machines import GIB, MIB
from symphony.placement.pool import Amounts, Pool

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
