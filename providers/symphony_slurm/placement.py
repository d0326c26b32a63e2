"""Assigns processes to nodes: a group shares a node, and running processes stay where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from symphony_slurm.folder import Share

# GPUs, cpus, MiB of memory, processes: place() compares them in this order; job_size reads the first as GPUs.
Load = tuple[int, float, int, int]
_NOTHING: Load = (0, 0.0, 0, 0)


class Nodes:
    """The nodes of an allocation, and the node of each process; the nodes of a component are equally large.

    They have no capacity here: the job asks for nodes as large as `node_needs` returns.

    components: the nodes of each component of the job; two components never share a node.
    hosts: the address of each node, for the supervisor.
    placed: the nodes of processes that a killed supervisor placed; the first `place` keeps them.
    """

    def __init__(
        self,
        components: Sequence[Sequence[str]],
        hosts: Mapping[str, str],
        placed: Mapping[str, str] | None = None,
    ) -> None:
        self._components, self.hosts, self._placed = components, dict(hosts), placed or {}
        self.names = [name for names in components for name in names]
        self._units: dict[str, str] = {}
        self._shares: Mapping[str, Share] = {}

    def node_of(self, path: str) -> str:
        """Return the node of a process; empty before `place` has placed it."""
        share = self._shares.get(path)
        return self._units.get((share and share.group) or path, "") if share else ""

    def place(self, shares: Mapping[str, Share], partitions: Sequence[str] = ()) -> None:
        """Place the groups and processes without a node, the largest first, so that the loads stay even.

        Args:
            shares: The share of each process.
            partitions: The partitions of the components; empty for an ordinary job.
        """
        self._shares = shares
        units = units_of(shares)
        allowed = {
            share.group or path: self._components[partitions.index(share.partition)]
            if partitions
            else self.names
            for path, share in shares.items()
        }
        self._units |= {
            shares[path].group or path: node for path, node in self._placed.items() if path in shares
        }
        self._placed = {}
        self._units = {unit: node for unit, node in self._units.items() if node in allowed.get(unit, ())}
        loads = dict.fromkeys(self.names, _NOTHING)
        for unit, node in self._units.items():
            loads[node] = _sum(loads[node], units[unit])
        for unit in sorted(sorted(units.keys() - self._units.keys()), key=units.__getitem__, reverse=True):
            node = min(allowed[unit], key=lambda name: (loads[name], self.names.index(name)))
            loads[node] = _sum(loads[node], units[unit])
            self._units[unit] = node


def units_of(shares: Mapping[str, Share]) -> dict[str, Load]:
    """Return the GPUs, cpus, memory and processes of each group, and of each process outside of groups."""
    result: dict[str, Load] = {}
    for path, share in shares.items():
        unit = share.group or path
        result[unit] = _sum(result.get(unit, _NOTHING), (share.gpus, share.cpus, share.memory, 1))
    return result


def _sum(one: Load, other: Load) -> Load:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def node_needs(shares: Mapping[str, Share], nodes: int) -> tuple[float, int, dict[str, int]]:
    """Return the cpus, the memory and the GPUs of each type that each node must have."""
    placed = Nodes([[str(number) for number in range(nodes)]], {})
    placed.place(shares)
    loads = dict.fromkeys(placed.names, _NOTHING)
    gpus: dict[str, Counter[str]] = {name: Counter() for name in placed.names}
    for path, share in shares.items():
        node = placed.node_of(path)
        loads[node] = _sum(loads[node], (share.gpus, share.cpus, share.memory, 1))
        gpus[node][share.gpu_kind] += share.gpus
    kinds = {share.gpu_kind for share in shares.values() if share.gpus}
    most = {kind: max(counts[kind] for counts in gpus.values()) for kind in kinds}
    return max(load[1] for load in loads.values()), max(load[2] for load in loads.values()), most
