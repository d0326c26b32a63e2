"""Computes the sbatch options of an experiment's job from the resources of its processes.

Processes in different partitions need a heterogeneous job, which has a component for each partition; a ":"
separates the options of components, as on the command line of sbatch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from symphony.backends.slurm.settings import Settings
from symphony.placement.quantities import amount
from symphony.spec.process import ProcessSettings
from symphony_slurm import placement
from symphony_slurm.folder import Folder, Share

_MIB = 1 << 20


def shares_of(processes: Iterable[tuple[str, ProcessSettings, str]], settings: Settings) -> dict[str, Share]:
    """Return the share of each process; the partition of one process is that of its whole group.

    Args:
        processes: The path of each process, its settings, and its group.
        settings: The settings of the stack.
    """
    members = [*processes]
    partitions = {
        group or path: name for path, process, group in members if (name := process.place.partition)
    }
    default = settings.partition or ""
    return {
        path: _share(process, group, partitions.get(group or path, default))
        for path, process, group in members
    }


def _share(process: ProcessSettings, group: str, partition: str) -> Share:
    request, place = process.resource_request, process.place
    return Share(
        cpus=float(amount(request.cpu or place.cpu or 0) or 0),
        memory=ceil((amount(request.memory or place.memory or 0) or 0) / _MIB),
        gpus=process.resource_limit.gpu or place.gpu or int(bool(place.gpu_type)),
        gpu_type=place.gpu_type or "",
        constraint=place.constraint or "",
        partition=partition,
        group=group,
    )


def options_of(settings: Settings, shares: Mapping[str, Share], folder: Folder) -> list[str]:
    """Return the options of sbatch; those of the running job if it is still large enough."""
    by_partition: dict[str, dict[str, Share]] = {}
    for path, share in shares.items():
        by_partition.setdefault(share.partition, {})[path] = share
    by_partition = by_partition or {settings.partition or "": {}}
    current = folder.options() or ()
    current_components = {partition_of(options): options for options in components(current)}

    def by_need(partition: str) -> tuple[bool, bool, str]:
        gpus = any(share.gpus for share in by_partition[partition].values())
        return not gpus, partition == (settings.partition or ""), partition

    # If several components could use a node, Slurm gives it to the first of them.
    order = sorted(by_partition, key=by_need)

    def component(partition: str, order: Sequence[str]) -> _Component:
        supervised = len(shares) if partition == order[0] else 0
        return _Component(settings, partition, by_partition[partition], supervised, len(order) == 1)

    if current_components.keys() == by_partition.keys() and all(
        component(partition, [*current_components]).fits(options)
        for partition, options in current_components.items()
    ):
        return list(current)
    first, *others = (component(partition, order).options for partition in order)
    return [*first, *(option for options in others for option in (":", *options))]


@dataclass(frozen=True)
class _Component:
    """A component of the job: the processes of one partition.

    supervised: the number of processes that the supervisor starts; 0 if it runs in another component.
    """

    settings: Settings
    partition: str
    shares: Mapping[str, Share]
    supervised: int
    is_only: bool

    @property
    def nodes(self) -> int:
        """Return the number of nodes that the stack sets; in a heterogeneous job, no more than are useful."""
        maximum, loads = self.settings.nodes, placement.units_of(self.shares).values()
        if self.is_only:
            return maximum
        if not (with_gpus := sum(1 for gpus, *_ in loads if gpus)):
            return min(maximum, len(loads))
        # All nodes get equally many GPUs: more nodes must not need more GPUs in total.
        return min(range(min(maximum, with_gpus), 0, -1), key=lambda nodes: nodes * self._gpus(nodes))

    @property
    def options(self) -> list[str]:
        # sbatch passes --mem on to components without it, but not --mem-per-cpu.
        sizes = _size_options(self._sizes(self.nodes), memory_per_cpu=not self.is_only)
        return [*self._fixed(self.nodes), *sizes, *self.settings.sbatch_options]

    def fits(self, options: Sequence[str]) -> bool:
        """Return whether a component with these options has enough for the processes."""
        own = options[: len(options) - len(self.settings.sbatch_options)]
        if [*options] != [*own, *self.settings.sbatch_options]:
            return False
        nodes, available = int(_value(own, "nodes") or 0), _sizes(own)
        if self.is_only or not self.nodes <= nodes <= self.settings.nodes:
            nodes = self.nodes
        return _without_sizes(own) == self._fixed(nodes) and all(
            available.get(name, 0) >= size for name, size in self._sizes(nodes).items()
        )

    def _gpus(self, nodes: int) -> int:
        return sum(placement.node_needs(self.shares, nodes)[2].values())

    def _fixed(self, nodes: int) -> list[str]:
        """Return the options that must be equal in the running job."""
        settings = self.settings
        constraints = {settings.constraint or ""} | {share.constraint for share in self.shares.values()}
        named = {
            "partition": self.partition,
            "account": settings.account,
            "qos": settings.qos,
            "time": settings.time,
            "constraint": _all_of(constraints),
            "nodes": nodes,
            "ntasks-per-node": 1,
        }
        return [f"--{name}={value}" for name, value in named.items() if value]

    def _sizes(self, nodes: int) -> dict[str, int]:
        cpus, memory, gpus = placement.node_needs(self.shares, nodes)
        supervisor = _supervisor_memory(self.supervised) if self.supervised else 0
        return {"cpus-per-task": max(1, ceil(cpus)), "mem": memory and memory + supervisor, **gpus}


def components(options: Sequence[str]) -> list[list[str]]:
    """Return the options of each component of a job; an ordinary job is one component."""
    result: list[list[str]] = [[]]
    for option in options:
        if option == ":":
            result.append([])
        else:
            result[-1].append(option)
    return result


def partition_of(options: Sequence[str]) -> str:
    """Return the partition of a component; empty for the default of the cluster."""
    return _value(options[:1], "partition")


def nodes_of(options: Sequence[str]) -> int:
    """Return the number of nodes that a component asks for."""
    return int(_value(options, "nodes") or 1)


def time_of(options: Sequence[str]) -> str:
    """Return the time limit that a component asks for; empty for the default of its partition."""
    return _value(options, "time")


def _supervisor_memory(processes: int) -> int:
    """Return the MiB that the supervisor and its srun commands, one for each process, use on the first node.

    They grow in steps, so that one more process rarely needs another job.
    """
    return 64 + 8 * max(16, 1 << (processes - 1).bit_length())


def _size_options(sizes: Mapping[str, int], *, memory_per_cpu: bool) -> list[str]:
    gres = ",".join(f"{name}:{count}" for name, count in _gpus(sizes).items())
    cpus, memory = sizes["cpus-per-task"], f"--mem={sizes['mem']}M"
    if memory_per_cpu and cpus:
        memory = f"--mem-per-cpu={ceil(sizes['mem'] / cpus)}M"
    return [f"--cpus-per-task={cpus}", *[memory] * bool(sizes["mem"]), *([f"--gres={gres}"] if gres else [])]


def _gpus(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of GPUs of each type, such as `gpu` or `gpu:v100`."""
    return {name: sizes[name] for name in sorted(sizes) if name.partition(":")[0] == "gpu"}


def _sizes(options: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {"cpus-per-task": 0, "mem": 0}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        # The stack's own sbatch options may have other units.
        number = int(value.removesuffix("M")) if re.fullmatch(r"\d+M?", value) else 0
        if option.startswith("--gres=gpu:"):
            parts = (part.rpartition(":") for part in value.split(","))
            sizes |= {kind: int(count) for kind, _, count in parts if count.isdecimal()}
        elif name == "mem-per-cpu":
            sizes["mem"] = number * sizes["cpus-per-task"]
        elif name in sizes:
            sizes[name] = number
    return sizes


def _value(options: Sequence[str], name: str) -> str:
    return next((o.partition("=")[2] for o in options if o.startswith(f"--{name}=")), "")


def _all_of(constraints: Collection[str]) -> str:
    """Return the constraint that requires all given constraints."""
    distinct = sorted({*constraints} - {""})
    return "&".join(f"({text})" if len(distinct) > 1 and "|" in text else text for text in distinct)


def _without_sizes(options: Sequence[str]) -> list[str]:
    sizes = _sizes(options)
    excluded = {
        option for per_cpu in (False, True) for option in _size_options(sizes, memory_per_cpu=per_cpu)
    }
    return [option for option in options if option not in excluded]


def in_words(options: Sequence[str]) -> str:
    """Return options in words: `3 nodes with 8 cpu, 32 GiB, 1 GPU each (partition gpu, account ml)`."""
    return " and ".join(map(_in_words, components(options)))


def reason(current: Sequence[str], options: Sequence[str]) -> str:
    """Return how the job with the current options differs, as the end of a sentence about it.

    `has 1 node with 1 cpu`; if in_words() is equal, `was submitted with --nice and without --exclusive`.
    """
    if in_words(current) != in_words(options):
        return f"has {in_words(current)}"
    removed = " ".join(option for option in current if option not in options)
    added = " ".join(option for option in options if option not in current)
    parts = [f"with {removed}"] * bool(removed) + [f"without {added}"] * bool(added)
    return f"was submitted {' and '.join(parts) or 'with its options in another order'}"


def _in_words(options: Sequence[str]) -> str:
    sizes, nodes = _sizes(options), _value(options, "nodes")
    parts = [f"{sizes['cpus-per-task']} cpu"]
    mem = sizes["mem"]
    parts += [f"{mem / 1024:.3g} GiB" if mem >= 1024 else f"{mem} MiB"] * bool(mem)
    parts += [" ".join([str(n), *kind.split(":")[1:], "GPU"]) for kind, n in _gpus(sizes).items()]
    shown = ("partition", "account", "qos", "time", "constraint")
    named = [option.removeprefix("--").replace("=", " ", 1) for option in options]
    where = [option for option in named if option.partition(" ")[0] in shown]
    number = "1 node" if nodes == "1" else f"{nodes} nodes"
    each = " each" if nodes != "1" else ""
    suffix = f" ({', '.join(where)})" if where else ""
    return f"{number} with {', '.join(parts)}{each}{suffix}"
