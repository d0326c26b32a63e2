"""NodePool: the declaration of a pool of like machines, and the value that placement works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symphony.components.errors import as_usage_error
from symphony.placement import machines
from symphony.placement.machines import GIB, Machine
from symphony.placement.pool import EFFECTS, GPU_TAINT, SPOT_LABEL, Pool, Taint
from symphony.spec.convert import FLAG, Converter, of_type, strict_text, texts, variables
from symphony.spec.location import Location, caller
from symphony.spec.setting import Checked, required, setting

_COUNT: Converter = of_type(int)


@dataclass(frozen=True)
class NodePool(Checked):
    """A pool of like machines in a GkeCluster, which checks sizes, names and zones.

    Args:
        name: At most 40 lower-case letters, digits and -, a letter first; place() takes it.
        machine_type: As Compute Engine names it.
        accelerator: The type and number of the GPUs of a machine; those that the machine type has are known.
        min: The fewest machines, in all zones.
        max: The most machines, in all zones.
        spot: Whether Google may take the machines away, for a lower price.
        disk_gb: The size of the boot disk, GB.
        labels: Further labels of the machines.
        taints: (key, value, effect), the effect as Kubernetes or Google writes it. GPU and spot pools get
            theirs by themselves.
        zones: Where its machines are; the zones of the cluster by default.
        cpus: The vCPUs of a machine type that symphony does not know.
        memory_gb: The memory of a machine type that symphony does not know, GiB.
        gpus: The number of GPUs of a machine type that symphony does not know, with accelerator=(type, gpus).

    Raises:
        UserError: A value has another type.

    Example:
        NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4)
    """

    name: str = required(strict_text)
    machine_type: str = required(strict_text)
    accelerator: tuple[str, int] | None = setting(of_type(tuple[str, int] | None))
    min: int = setting(_COUNT, 0)
    max: int = setting(_COUNT, 8)
    spot: bool = setting(FLAG, False)
    disk_gb: int = setting(_COUNT, 100)
    labels: Mapping[str, str] = setting(variables, {})
    taints: Sequence[tuple[str, str, str]] = setting(of_type(list[tuple[str, str, str]]), ())
    zones: Sequence[str] = setting(texts, ())
    cpus: float | None = setting(of_type(float | None))
    memory_gb: float | None = setting(of_type(float | None))
    gpus: int | None = setting(of_type(int | None))
    where: Location = field(default_factory=caller, repr=False, compare=False)

    def __post_init__(self) -> None:
        with as_usage_error():
            super().__post_init__()

    @classmethod
    def from_pool(cls, pool: Pool, disk_gb: int | None = None) -> NodePool:
        """Return the declaration of a pool."""
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
    def machine(self) -> Machine | None:
        """The machine type: a known one, else one of the sizes that the program gives; None without both."""
        known = machines.find(self.machine_type)
        if known is not None or self.cpus is None or self.memory_gb is None:
            return known
        return Machine(self.machine_type, self.cpus, int(self.memory_gb * GIB), billed=self.cpus)

    @property
    def pool(self) -> Pool:
        """The pool for placement; an unknown machine type has no sizes."""
        machine = self.machine
        gpu_type, gpus = self.accelerator or ((machine.gpu_type, machine.gpus) if machine else ("", 0))
        gpus = self.gpus if self.gpus is not None else gpus
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
