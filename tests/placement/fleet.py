"""Pools and pods for the tests of placement."""

from typing import Any

from symphony.placement import machines
from symphony.placement.machines import GIB
from symphony.placement.planner import Claim, Pod
from symphony.placement.pool import Amounts, Pool, Taint


def pool(name: str = "cpu", machine_type: str = "n1-standard-8", **more: Any) -> Pool:
    machine = machines.find(machine_type)
    assert machine is not None
    built_in = {"gpus": machine.gpus, "gpu_type": machine.gpu_type} if machine.gpus else {}
    return Pool(
        name=name, machine_type=machine_type, cpu=machine.cpu, memory=machine.memory, **built_in | more
    )


def pod(name: str, cpu: float = 0, gib: float = 0, gpus: int | None = None, **more: Any) -> Pod:
    return Pod(name, (Claim(int(cpu * 1000), int(gib * GIB), gpus),), **more)


def share(name: str, parts: int, pool: str = "", **more: Any) -> Pod:
    return Pod(name, (Claim(parts=parts),), pool=pool, **more)


def holds(allocatable: Amounts, pod: Amounts) -> bool:
    left = allocatable - pod
    return min(left.cpu, left.memory, left.gpus, left.pods) >= 0


SPOT = Taint("cloud.google.com/gke-spot", "true")
CPU = pool("cpu", "n1-highmem-8", max=20)
GPU = pool("gpu", gpus=1, gpu_type="nvidia-tesla-v100", max=4, taints=(Taint("nvidia.com/gpu", "present"),))
CHEAP = pool("cheap", "n1-standard-8", spot=True, taints=(SPOT,), max=9)
FLEET = (GPU, CPU, CHEAP)
