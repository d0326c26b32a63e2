"""The summary of a placement: the machines of every pool, their pods, and the price of an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from symphony.placement.planner import Placement, total_of
from symphony.placement.pool import Pool
from symphony.placement.prices import Prices


@dataclass(frozen=True)
class Taken:
    """A pod in a pool: what it claims in all, and how many such pods a machine holds."""

    pod: str
    per_machine: int
    cpu: int
    memory: int
    gpus: int


@dataclass(frozen=True)
class PoolUse:
    """A pool with its pods. machines: those that these need; hourly: dollars for them; None: not known."""

    name: str
    machine_type: str
    gpu_type: str
    gpus: int
    spot: bool
    machines: int
    min: int
    max: int | None
    hourly: float | None
    takes: tuple[Taken, ...]


@dataclass(frozen=True)
class Summary:
    """The pools that take something; hourly: of all, None where that of one is not known.

    priced: the month and the region of the prices.
    """

    pools: tuple[PoolUse, ...]
    hourly: float | None
    priced: str

    @cached_property
    def pool_of(self) -> Mapping[str, PoolUse]:
        """The pool of every pod."""
        return {taken.pod: pool for pool in self.pools for taken in pool.takes}


def summed(
    placement: Placement, pools: Sequence[Pool], prices: Prices, names: Mapping[str, str]
) -> Summary | None:
    """Return the summary, None where nothing is placed; names: the pods' names in the backend."""
    if not placement.chosen:
        return None
    taken: dict[str, list[Taken]] = {}
    for pod, choice in placement.chosen.items():
        total = total_of(choice.claims)
        taken.setdefault(choice.pool.name, []).append(
            Taken(names.get(pod, pod), choice.per_machine, total.cpu, total.memory, total.gpus)
        )
    used = tuple(
        _use(pool, placement.machines[pool.name], tuple(taken[pool.name]), prices)
        for pool in pools
        if pool.name in taken
    )
    known = [each.hourly for each in used if each.hourly is not None]
    hourly = round(sum(known), 4) if len(known) == len(used) else None
    return Summary(used, hourly, prices.of)


def _use(pool: Pool, machines: int, takes: tuple[Taken, ...], prices: Prices) -> PoolUse:
    hourly = prices.hourly(pool)
    return PoolUse(
        name=pool.name,
        machine_type=pool.machine_type,
        gpu_type=pool.gpu_type,
        gpus=pool.gpus,
        spot=pool.spot,
        machines=machines,
        min=pool.min,
        max=pool.max,
        hourly=None if hourly is None else round(machines * hourly, 4),
        takes=takes,
    )
