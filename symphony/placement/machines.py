"""The machine types that GKE offers, and the GPUs that can be attached to them."""

from __future__ import annotations

import re
from dataclasses import dataclass

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """A machine type: cpu in vCPUs, memory in bytes, and the GPUs that it includes.

    billed: the vCPUs that are charged, fewer than cpu if cores are shared.
    """

    type: str
    cpu: float
    memory: int
    gpu_type: str = ""
    gpus: int = 0
    billed: float = 0

    @property
    def family(self) -> str:
        """The family, such as n1, that determines the price; `custom-...` types belong to n1."""
        family = self.type.partition("-")[0]
        return "n1" if family == "custom" else family

    @property
    def is_custom(self) -> bool:
        return "custom-" in self.type


# family -> class -> (GiB per vCPU, the available numbers of vCPUs)
_SIZES: dict[str, dict[str, tuple[float, str]]] = {
    "n1": {
        "standard": (3.75, "1 2 4 8 16 32 64 96"),
        "highmem": (6.5, "2 4 8 16 32 64 96"),
        "highcpu": (0.9, "2 4 8 16 32 64 96"),
    },
    "e2": {"standard": (4, "2 4 8 16 32"), "highmem": (8, "2 4 8 16"), "highcpu": (1, "2 4 8 16 32")},
    "n2": {
        "standard": (4, "2 4 8 16 32 48 64 80 96 128"),
        "highmem": (8, "2 4 8 16 32 48 64 80 96"),
        "highcpu": (1, "2 4 8 16 32 48 64 80 96"),
    },
    "n2d": {
        "standard": (4, "2 4 8 16 32 48 64 80 96 128 224"),
        "highmem": (8, "2 4 8 16 32 48 64 80 96"),
        "highcpu": (1, "2 4 8 16 32 48 64 80 96 128 224"),
    },
    "n4": {
        "standard": (4, "2 4 8 16 32 48 64 80"),
        "highmem": (8, "2 4 8 16 32 48 64 80"),
        "highcpu": (2, "2 4 8 16 32 48 64 80"),
    },
    "c4": {
        "standard": (3.75, "2 4 8 16 24 32 48 96 144 192 288"),
        "highmem": (7.75, "2 4 8 16 24 32 48 96 144 192 288"),
        "highcpu": (2, "2 4 8 16 24 32 48 96 144 192 288"),
    },
    "c4a": {
        "standard": (4, "1 2 4 8 16 32 48 64 72"),
        "highmem": (8, "1 2 4 8 16 32 48 64 72"),
        "highcpu": (2, "1 2 4 8 16 32 48 64 72"),
    },
    "m3": {"ultramem": (30.5, "32 64 128"), "megamem": (15.25, "64 128")},
    "c2": {"standard": (4, "4 8 16 30 60")},
    "c2d": {
        "standard": (4, "2 4 8 16 32 56 112"),
        "highmem": (8, "2 4 8 16 32 56 112"),
        "highcpu": (2, "2 4 8 16 32 56 112"),
    },
    "c3": {
        "standard": (4, "4 8 22 44 88 176"),
        "highmem": (8, "4 8 22 44 88 176"),
        "highcpu": (2, "4 8 22 44 88 176"),
    },
    "c3d": {
        "standard": (4, "4 8 16 30 60 90 180 360"),
        "highmem": (8, "4 8 16 30 60 90 180 360"),
        "highcpu": (2, "4 8 16"),
    },
    "t2d": {"standard": (4, "1 2 4 8 16 32 48 60")},
    "t2a": {"standard": (4, "1 2 4 8 16 32 48")},
}
_L4, _A100, _A100_80, _H100 = "nvidia-l4", "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-h100-80gb"
# Types that follow no rule: type -> vCPUs, GiB, GPU type, number of GPUs.
_SPECIAL: dict[str, tuple[int, float, str, int]] = {
    "n2-highmem-128": (128, 864, "", 0),
    **{f"c3d-highcpu-{30 * n}": (30 * n, 59 * n, "", 0) for n in (1, 2, 3, 6, 12)},
    **{f"g2-standard-{n}": (n, 4 * n, _L4, gpus) for n, gpus in zip(
        (4, 8, 12, 16, 24, 32, 48, 96), (1, 1, 1, 1, 2, 1, 4, 8), strict=True)},
    **{f"a2-highgpu-{n}g": (12 * n, 85 * n, _A100, n) for n in (1, 2, 4, 8)},
    "a2-megagpu-16g": (96, 1360, _A100, 16),
    **{f"a2-ultragpu-{n}g": (12 * n, 170 * n, _A100_80, n) for n in (1, 2, 4, 8)},
    **{f"a3-highgpu-{n}g": (26 * n, 234 * n, _H100, n) for n in (1, 2, 4, 8)},
    "a3-megagpu-8g": (208, 1872, "nvidia-h100-mega-80gb", 8),
    "a3-ultragpu-8g": (224, 2952, "nvidia-h200-141gb", 8),
}  # fmt: skip
# Shared cores: type -> GiB, vCPUs that are charged.
_SHARED = {"e2-micro": (1, 0.25), "e2-small": (2, 0.5), "e2-medium": (4, 1)}
_CUSTOM = re.compile(r"(?:(n1|n2|n2d|n4|e2)-)?custom-(\d{1,3})-(\d{3,7})(?:-ext)?", re.ASCII)
# GPUs for n1 machines: type -> number of GPUs -> the most vCPUs and GiB of the machine.
GPUS_OF_N1: dict[str, dict[int, tuple[int, float]]] = {
    "nvidia-tesla-t4": {1: (48, 312), 2: (48, 312), 4: (96, 624)},
    "nvidia-tesla-p4": {1: (24, 156), 2: (48, 312), 4: (96, 624)},
    "nvidia-tesla-v100": {1: (12, 78), 2: (24, 156), 4: (48, 312), 8: (96, 624)},
    "nvidia-tesla-p100": {1: (16, 104), 2: (32, 208), 4: (96, 624)},
}
GPU_TYPES = (*GPUS_OF_N1, _L4, _A100, _A100_80, _H100, "nvidia-h100-mega-80gb", "nvidia-h200-141gb")


def find(machine_type: str) -> Machine | None:
    """Return the machine type with a name; None if it is unknown."""
    if special := _SPECIAL.get(machine_type):
        cpu, gib, gpu_type, gpus = special
        return Machine(machine_type, cpu, int(gib * GIB), gpu_type, gpus, cpu)
    if shared := _SHARED.get(machine_type):
        return Machine(machine_type, 2, int(shared[0] * GIB), billed=shared[1])
    if custom := _CUSTOM.fullmatch(machine_type):
        return Machine(machine_type, int(custom[2]), int(custom[3]) * MIB, billed=int(custom[2]))
    # A type with local disks (-lssd) has the sizes of the type without.
    family, _, rest = machine_type.removesuffix("-lssd").partition("-")
    kind, _, size = rest.partition("-")
    gib, sizes = _SIZES.get(family, {}).get(kind, (0, ""))
    if size not in sizes.split():
        return None
    return Machine(machine_type, int(size), int(int(size) * gib * GIB), billed=int(size))


def known() -> list[str]:
    """Return the names of all machine types except custom types and those with local disks (-lssd)."""
    regular = [
        f"{family}-{kind}-{size}"
        for family, kinds in _SIZES.items()
        for kind, (_, sizes) in kinds.items()
        for size in sizes.split()
    ]
    return [*regular, *_SHARED, *_SPECIAL]


def gpu_type_of(name: str) -> str:
    """Return GKE's name of a GPU type that may be shortened to `v100`; an unknown name is unchanged.

    >>> gpu_type_of("V100"), gpu_type_of("h100"), gpu_type_of("x9")
    ('nvidia-tesla-v100', 'nvidia-h100-80gb', 'x9')
    """
    short = name.lower().removeprefix("nvidia-").removeprefix("tesla-")
    exact = [gpu for gpu in GPU_TYPES if gpu.removeprefix("nvidia-").removeprefix("tesla-") == short]
    partial = [gpu for gpu in GPU_TYPES if f"-{short}-" in f"{gpu}-"]
    return next(iter([*exact, *partial]), name)


def gpu_fault(machine: Machine, gpu_type: str, gpus: int) -> str:
    """Return why a machine type cannot have these GPUs, or an empty string."""
    if machine.gpus:
        if (gpu_type, gpus) == (machine.gpu_type, machine.gpus):
            return ""
        return f"a {machine.type} includes {machine.gpus} {machine.gpu_type} and takes no other GPUs"
    counts = GPUS_OF_N1.get(gpu_type)
    if counts is None:
        if gpu_type not in GPU_TYPES:
            return f"GKE has no GPU type {gpu_type}"
        own = [name for name, (*_, included, _count) in _SPECIAL.items() if included == gpu_type]
        nearest = min(own, key=lambda name: abs(_SPECIAL[name][3] - gpus))
        return (
            f"{gpu_type} is included in machine types such as {nearest}, and a {machine.type} cannot have it"
        )
    if machine.family != "n1":
        return f"{gpu_type} can be attached to n1 machines only"
    if gpus not in counts:
        *others, last = map(str, counts)
        return f"a machine takes {', '.join(others)} or {last} {gpu_type}"
    cpu, gib = counts[gpus]
    if machine.cpu > cpu or machine.memory > gib * GIB:
        return f"with {gpus} {gpu_type} a machine has at most {cpu} vCPUs and {gib:g} GiB"
    return ""
