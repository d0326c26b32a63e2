"""Hourly prices of machines: a dated table by family, vCPU, GiB and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symphony.placement.machines import GIB, find
from symphony.placement.pool import Pool


@dataclass(frozen=True)
class Rates:
    """Dollars an hour: (machine,) by machine type, (vCPU, GiB) by family, and a GPU by its type."""

    machines: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    gpus: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Prices:
    """List prices: their month and region, and the rates on demand and of spot machines."""

    date: str
    region: str
    on_demand: Rates
    spot: Rates

    @property
    def of(self) -> str:
        """The month and region of the prices."""
        return f"{self.date}, {self.region}"

    def hourly(self, pool: Pool) -> float | None:
        """Return the dollars an hour for a machine of a pool; None if the price is unknown."""
        rates = self.spot if pool.spot else self.on_demand
        machine = find(pool.machine_type)
        family = machine.family if machine and not machine.is_custom else ""
        rate = rates.machines.get(pool.machine_type) or rates.machines.get(family)
        if rate is None or (pool.gpus and pool.gpu_type not in rates.gpus):
            return None
        gpu_price = pool.gpus * rates.gpus[pool.gpu_type] if pool.gpus else 0.0
        if len(rate) == 1:
            return rate[0] + gpu_price
        cpu_price, gib_price = rate
        cpu, memory = (machine.billed, machine.memory) if machine else (pool.cpu, pool.memory)
        return cpu * cpu_price + memory / GIB * gib_price + gpu_price


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
