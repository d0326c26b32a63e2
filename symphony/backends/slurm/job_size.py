"""Computes the sbatch options of an experiment's job from the resources of its processes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import ceil

from symphony.backends.slurm.settings import Settings
from symphony.placement.quantities import amount
from symphony.spec.process import ProcessSettings
from symphony_slurm import placement
from symphony_slurm.folder import Folder, Share

_MIB = 1 << 20


def share(process: ProcessSettings, group: str) -> Share:
    """Return the share of a node that a process needs."""
    request, place = process.resource_request, process.place
    return Share(
        cpus=float(amount(request.cpu or place.cpu or 0) or 0),
        memory=ceil((amount(request.memory or place.memory or 0) or 0) / _MIB),
        gpus=process.resource_limit.gpu or place.gpu or int(bool(place.gpu_type)),
        gpu_type=place.gpu_type or "",
        constraint=place.constraint or "",
        group=group,
    )


def options_of(settings: Settings, shares: Mapping[str, Share], folder: Folder) -> list[str]:
    """Return the options of sbatch; those of the running job if it is still large enough."""
    named = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "time": settings.time,
        "constraint": _all_of({settings.constraint or ""} | {each.constraint for each in shares.values()}),
        "nodes": settings.nodes,
        "ntasks-per-node": 1,
    }
    fixed = [f"--{name}={value}" for name, value in named.items() if value]
    cpus, memory, gpus = placement.needed(shares, settings.nodes)
    sizes = {
        "cpus-per-task": max(1, ceil(cpus)),
        "mem": memory and memory + _of_the_supervisor(len(shares)),
        **gpus,
    }
    now = folder.options()
    own = now[: len(now) - len(settings.sbatch_options)] if now else ()
    if now and now == (*own, *settings.sbatch_options) and _rest(own) == fixed:
        had = _sizes(own)
        if all(had.get(name, 0) >= size for name, size in sizes.items()):
            return list(now)
    return [*fixed, *_written(sizes), *settings.sbatch_options]


def _of_the_supervisor(processes: int) -> int:
    """Return the MiB that the supervisor and an srun a process take, on the node that Slurm makes the first.

    They grow in leaps, so that a further process seldom needs another job.
    """
    return 64 + 8 * max(16, 1 << (processes - 1).bit_length())


def _written(sizes: Mapping[str, int]) -> list[str]:
    gres = ",".join(f"{name}:{count}" for name, count in _gpus(sizes).items())
    memory = [f"--mem={sizes['mem']}M"] if sizes["mem"] else []
    return [f"--cpus-per-task={sizes['cpus-per-task']}", *memory, *([f"--gres={gres}"] if gres else [])]


def _gpus(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of GPUs of a node by type: `gpu`, `gpu:v100`."""
    return {name: sizes[name] for name in sorted(sizes) if name.partition(":")[0] == "gpu"}


def _sizes(options: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {"cpus-per-task": 0, "mem": 0}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        # Those that the stack lists may have other units.
        number = int(value.removesuffix("M")) if re.fullmatch(r"\d+M?", value) else 0
        if option.startswith("--gres=gpu:"):
            parts = (part.rpartition(":") for part in value.split(","))
            found |= {kind: int(count) for kind, _, count in parts if count.isdecimal()}
        elif name in found:
            found[name] = number
    return found


def _all_of(constraints: Collection[str]) -> str:
    """Return the constraint that requires all given constraints."""
    every = sorted({*constraints} - {""})
    return "&".join(f"({each})" if len(every) > 1 and "|" in each else each for each in every)


def _rest(options: Sequence[str]) -> list[str]:
    sizes = set(_written(_sizes(options)))
    return [option for option in options if option not in sizes]


def in_words(options: Sequence[str]) -> str:
    """Return options in words: `3 nodes with 8 cpu, 32 GiB, 1 GPU each (partition gpu, account ml)`."""
    sizes, nodes = _sizes(options), next(o.partition("=")[2] for o in options if o.startswith("--nodes="))
    parts = [f"{sizes['cpus-per-task']} cpu"]
    mem = sizes["mem"]
    parts += [f"{mem / 1024:.3g} GiB" if mem >= 1024 else f"{mem} MiB"] * bool(mem)
    parts += [" ".join([str(n), *kind.split(":")[1:], "GPU"]) for kind, n in _gpus(sizes).items()]
    shown = ("partition", "account", "qos", "time", "constraint")
    named = [option.removeprefix("--").replace("=", " ", 1) for option in options]
    where = [option for option in named if option.partition(" ")[0] in shown]
    many = "1 node" if nodes == "1" else f"{nodes} nodes"
    each = " each" if nodes != "1" else ""
    placed = f" ({', '.join(where)})" if where else ""
    return f"{many} with {', '.join(parts)}{each}{placed}"
