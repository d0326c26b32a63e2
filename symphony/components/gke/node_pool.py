"""NodePool: the declaration of a pool of like machines, and the value that placement works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symphony.placement import machines
from symphony.placement.pool import EFFECTS, GPU_TAINT, SPOT_LABEL, Pool, Taint
from symphony.spec.location import Location, caller


@dataclass(frozen=True)
class NodePool:
    """A pool of like machines in a GkeCluster.

    machine_type: as Compute Engine names it.
    accelerator:  the type and number of GPUs of each machine; what the machine type has needs no word.
    min, max:     between how many machines, in all zones, the pool is scaled.
    spot:         machines that Google may take away, for less.
    disk_gb:      the boot disk, GB.
    labels:       further labels of each machine.
    taints:       (key, value, effect), the effect as Kubernetes or Google writes it. GPU and spot pools are
                  tainted by themselves.
    zones:        in which its machines are; those of the cluster by default.

    NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4)
    """

    name: str
    machine_type: str
    accelerator: tuple[str, int] | None = None
    min: int = 0
    max: int = 8
    spot: bool = False
    disk_gb: int = 100
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: Sequence[tuple[str, str, str]] = ()
    zones: Sequence[str] = ()
    where: Location = field(default_factory=lambda: _line(), repr=False, compare=False)

    def __post_init__(self) -> None:
        """TypeError: a text stands where several values do."""
        for name, such_as in (("accelerator", '("nvidia-tesla-v100", 1)'), ("zones", '["us-central1-a"]')):
            if isinstance(given := getattr(self, name), str):
                raise TypeError(f"{name}={given!r} of pool {self.name}: write it as {such_as}")

    @classmethod
    def from_pool(cls, pool: Pool, disk_gb: int | None = None) -> NodePool:
        """The declaration of a pool."""
        own = machines.find(pool.machine_type)
        accelerator = (pool.gpu_type, pool.gpus) if pool.gpus and not (own and own.gpus) else None
        return cls(
            pool.name,
            pool.machine_type,
            accelerator=accelerator,
            min=pool.min,
            max=8 if pool.max is None else pool.max,
            spot=pool.spot,
            disk_gb=disk_gb or 100,
            labels=dict(pool.labels),
            taints=[(each.key, each.value, each.effect) for each in pool.taints],
            zones=list(pool.zones),
        )

    @property
    def pool(self) -> Pool:
        """The value of it; of an unknown machine type without sizes."""
        machine = machines.find(self.machine_type)
        gpu_type, gpus = self.accelerator or ((machine.gpu_type, machine.gpus) if machine else ("", 0))
        taints = [Taint(key, value, EFFECTS.get(effect, effect)) for key, value, effect in self.taints]
        if gpus:
            taints.append(Taint(GPU_TAINT, "present"))
        if self.spot:
            taints.append(Taint(SPOT_LABEL, "true"))
        return Pool(
            name=self.name,
            machine_type=self.machine_type,
            cpu=machine.cpu if machine else 0,
            memory=machine.memory if machine else 0,
            labels=dict(self.labels),
            taints=tuple(dict.fromkeys(taints)),
            gpu_type=machines.gpu_type_of(gpu_type) if gpus else "",
            gpus=gpus,
            min=self.min,
            max=self.max,
            spot=self.spot,
            zones=tuple(self.zones),
        )


def _line() -> Location:
    """That of the user: what makes a dataclass stands between, in a file without a name."""
    where = caller()
    return where.called_from[0] if where.file.endswith("<string>") and where.called_from else where
