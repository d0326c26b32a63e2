"""NodePool: the declaration of a pool of like machines, and the value that placement works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from symphony.placement import machines
from symphony.placement.pool import EFFECTS, GPU_TAINT, SPOT_LABEL, Pool, Taint
from symphony.spec.location import Location, caller
from symphony.spec.setting import metadata, settings_of
from symphony.spec.types import COUNT, FLAG, TEXT, TEXTS, VARIABLES, ValueType, WrongTypeError


def _accelerator(value: Any) -> tuple[str, int] | None:
    if value is not None and not _are(value, str, int):
        raise WrongTypeError('a type of GPUs and their number, such as ("nvidia-tesla-v100", 1)')
    return value


def _taints(value: Any) -> Sequence[tuple[str, str, str]]:
    taints = cast("Sequence[Any]", value)
    if not isinstance(value, (list, tuple)) or not all(_are(each, str, str, str) for each in taints):
        raise WrongTypeError('a list of keys, values and effects, such as [("team", "rl", "NoSchedule")]')
    return taints


def _are(value: Any, *kinds: type[Any]) -> bool:
    return isinstance(value, (list, tuple)) and (*map(type, cast("Sequence[Any]", value)),) == kinds


@dataclass(frozen=True)
class NodePool:
    """A pool of like machines in a GkeCluster.

    NodePool("gpu", "n1-standard-8", accelerator=("nvidia-tesla-v100", 1), max=4)

    name:         at most 40 lower-case letters, digits and -, a letter first; place() takes it.
    machine_type: as Compute Engine names it.
    accelerator:  the type and number of GPUs of each machine; what the machine type has needs no word.
    min, max:     between how many machines, in all zones, the pool is scaled.
    spot:         machines that Google may take away, for less.
    disk_gb:      the boot disk, GB.
    labels:       further labels of each machine.
    taints:       (key, value, effect), the effect as Kubernetes or Google writes it. GPU and spot pools are
                  tainted by themselves.
    zones:        in which its machines are; those of the cluster by default.

    Nothing is checked here: what is wrong is reported by the GkeCluster, with its line.
    """

    name: str = field(metadata=metadata(TEXT))
    machine_type: str = field(metadata=metadata(TEXT, stand_in="e2-standard-8"))
    accelerator: tuple[str, int] | None = field(default=None, metadata=metadata(ValueType(_accelerator)))
    min: int = field(default=0, metadata=metadata(COUNT))
    max: int = field(default=8, metadata=metadata(COUNT, stand_in=8))
    spot: bool = field(default=False, metadata=metadata(FLAG))
    disk_gb: int = field(default=100, metadata=metadata(COUNT, stand_in=100))
    labels: Mapping[str, str] = field(default_factory=dict[str, str], metadata=metadata(VARIABLES))
    taints: Sequence[tuple[str, str, str]] = field(
        default=(), metadata=metadata(ValueType(_taints, empty=tuple))
    )
    zones: Sequence[str] = field(default=(), metadata=metadata(TEXTS))
    where: Location = field(default_factory=lambda: _line(), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read what may be given in several ways."""
        for name, each in settings_of(NodePool).items():
            object.__setattr__(self, name, each.type.read(getattr(self, name)))

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
