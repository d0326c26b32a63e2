"""What a machine costs an hour: a dated table of list prices by family, vCPU, GiB and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symphony.placement.machines import GIB, find
from symphony.placement.pool import Pool


@dataclass(frozen=True)
class Rates:
    """Dollars an hour: machine type -> of one, or family -> of a vCPU and of a GiB; GPU type -> of one."""

    machines: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    gpus: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Prices:
    """List prices: of which month and region they are, on demand and of spot machines."""

    date: str
    region: str
    on_demand: Rates
    spot: Rates

    def hourly(self, pool: Pool) -> float | None:
        """Dollars an hour of one machine of a pool; None: a price is not known."""
        rates = self.spot if pool.spot else self.on_demand
        machine = find(pool.machine_type)
        known = rates.machines.get(pool.machine_type) or rates.machines.get(machine.family if machine else "")
        if known is None or (pool.gpus and pool.gpu_type not in rates.gpus):
            return None
        of_gpus = pool.gpus * rates.gpus[pool.gpu_type] if pool.gpus else 0.0
        if len(known) == 1 or machine is None:
            return known[0] + of_gpus
        of_cpu, of_gib = known
        return machine.billed * of_cpu + machine.memory / GIB * of_gib + of_gpus


LIST_PRICES = Prices(
    date="2025-01",
    region="us-central1",
    on_demand=Rates(
        {
            "n1": (0.031611, 0.004237),
            "e2": (0.021811, 0.002923),
            "n2": (0.031611, 0.004237),
            "n2d": (0.027502, 0.003686),
            "c2": (0.03398, 0.00455),
            "c2d": (0.029563, 0.003959),
            "c3": (0.03398, 0.00456),
            "t2d": (0.027502, 0.003686),
            "g2": (0.024988, 0.002927),
            "a2": (0.031611, 0.004237),
        },
        {
            "nvidia-tesla-t4": 0.35,
            "nvidia-tesla-p4": 0.60,
            "nvidia-tesla-v100": 2.48,
            "nvidia-tesla-p100": 1.46,
            "nvidia-l4": 0.56004,
            "nvidia-tesla-a100": 2.933908,
            "nvidia-a100-80gb": 3.92808,
        },
    ),
    spot=Rates(
        {"n1": (0.006655, 0.000892), "e2": (0.006543, 0.000877)},
        {
            "nvidia-tesla-t4": 0.11,
            "nvidia-tesla-p4": 0.216,
            "nvidia-tesla-v100": 0.74,
            "nvidia-tesla-p100": 0.43,
        },
    ),
)
