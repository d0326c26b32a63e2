"""Checks of pools before a cluster is made: sizes, GPUs, names, zones."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from symphony.placement import machines
from symphony.placement.pool import Pool


def faults(pools: Sequence[Pool], location: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the pool, what is wrong with it, and the remedy; location: the region or zone of the cluster."""
    for name, times in Counter(pool.name for pool in pools).items():
        if times > 1:
            yield name, f"is declared {times} times", "give each pool a name of its own"
    for pool in pools:
        for what, remedy in _of(pool, location):
            yield pool.name, what, remedy


def unknown_machines(pools: Sequence[Pool]) -> Iterator[str]:
    """Yield a warning for each machine type that is not in the table, which ages."""
    for pool in pools:
        if pool.machine_type and machines.find(pool.machine_type) is None:
            near = difflib.get_close_matches(pool.machine_type, machines.known(), n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            sizes = "" if pool.cpu else " Give cpus=, memory_gb= and gpus=, or nothing is placed on it."
            what = f"pool {pool.name} has a machine type that symphony does not know"
            yield f"{what}: {pool.machine_type}.{meant}{sizes}"


def _of(pool: Pool, location: str) -> Iterator[tuple[str, str]]:
    machine = machines.find(pool.machine_type)
    if not pool.machine_type:
        yield "has no machine type", "such as n1-standard-8"
    elif (
        machine is not None and pool.gpus and (fault := machines.gpu_fault(machine, pool.gpu_type, pool.gpus))
    ):
        yield f"cannot have its GPUs: {fault}", "choose another machine type or number of GPUs"
    if pool.min < 0 or (pool.max is not None and pool.max < 1):
        yield f"has the sizes min {pool.min} and max {pool.max}", "min is at least 0, max at least 1"
    elif pool.max is not None and pool.min > pool.max:
        yield f"has min {pool.min} above max {pool.max}", "raise max or lower min"
    region = "-".join(location.split("-")[:2])
    if location and (far := [zone for zone in pool.zones if zone.rpartition("-")[0] != region]):
        remedy = f"the cluster is in {location}: choose zones such as {region}-a"
        yield f"is in {', '.join(far)}, outside of {region}", remedy
