"""GKEDispatcher of the original: sends processes to node pools of a cluster that cloudwise described."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from symphony.components.errors import usage_error
from symphony.errors import UserError
from symphony.placement import planner, tf_json
from symphony.placement.machines import MIB
from symphony.placement.planner import Claim, Pod
from symphony.placement.pool import LIST_PRICES, SPOT_LABEL, Pool, Taint
from symphony.placement.tf_json import MissingError
from symphony.plan.names import nearest, quoted

if TYPE_CHECKING:
    from symphony.components.process import Process
    from symphony.components.process_group import ProcessGroup


class HasPools(Protocol):
    """A GkeCluster."""

    @property
    def pools(self) -> Sequence[Pool]: ...


class GKEDispatcher:
    """Selects a node pool for a process, tolerates its taints, and claims resources there.

    dispatcher = GKEDispatcher("cluster.tf.json")
    dispatcher.assign_to_gpu(learner, node_pool_name="v100-pool")

    tf_json: the path or the content of the `.tf.json` that cloudwise wrote, or a GkeCluster.

    For a process in a group give process_group=: the group gets the pool, the process the resources.
    UserError: the file is wrong, or a call asks for resources that a pool does not have.
    """

    def __init__(self, tf_json: tf_json.TfJson | HasPools) -> None:
        """Read the node pools."""
        if (pools := getattr(tf_json, "pools", None)) is not None:
            self._pools: dict[str, Pool] = {pool.name: pool for pool in cast("Sequence[Pool]", pools)}
            self._entries: Mapping[str, Mapping[str, Any]] = {
                name: pool.to_json() for name, pool in self._pools.items()
            }
            return
        cluster = _read(tf_json)
        self._pools = {pool.name: pool for pool in cluster.pools}
        self._entries = cluster.entries

    def get_node_pools(self) -> list[str]:
        """Return the names of the node pools, sorted."""
        return sorted(self._pools)

    def get_node_pool(self, name: str) -> Mapping[str, Any]:
        """Return the content of the file for a node pool: dispatcher.get_node_pool("v100-pool").

        name: the pool. KeyError, which is a UserError: it does not exist.
        """
        self._pool(name)
        return self._entries[name]

    def assign_to(
        self,
        process: Process,
        *,
        assign_to: Literal["machine", "gpu", "node_pool", "resource"],
        **settings: Any,
    ) -> None:
        """Assign in one of four ways.

        dispatcher.assign_to(learner, assign_to="gpu", node_pool_name="v100-pool")

        process: of a new_process(). assign_to: which of the four methods below.
        settings: its keywords; those that are None are ignored. UserError: as these methods.
        """
        targets = ("machine", "gpu", "node_pool", "resource")
        if assign_to not in targets:
            raise usage_error(f"assign_to={assign_to!r} is invalid", f"Use one of: {', '.join(targets)}")
        keywords = {name: value for name, value in settings.items() if value is not None}
        method = getattr(self, f"assign_to_{assign_to}")
        try:
            method(process, **keywords)
        except TypeError as error:
            # The error names the missing or unknown keyword.
            raise usage_error(str(error).replace("GKEDispatcher.", ""), "See its parameters") from None

    def assign_to_machine(
        self,
        process: Process,
        *,
        node_pool_name: str,
        process_group: ProcessGroup | None = None,
        process_per_machine: int = 1,
    ) -> None:
        """Claim an equal share of one machine of a pool, for a process.

        dispatcher.assign_to_machine(agent, node_pool_name="cpu-pool", process_per_machine=4)

        node_pool_name: of get_node_pools(). process_group: that of the process, if it is in one.
        process_per_machine: how many such processes fit on a machine.
        UserError: the pool does not exist, or no machine of it has that much.
        """
        parts = _integer("process_per_machine", process_per_machine, least=1)
        self._assign(process, process_group, Claim(parts=parts or 1), self._pool(node_pool_name).name)

    def assign_to_gpu(
        self, process: Process, *, node_pool_name: str, process_group: ProcessGroup | None = None
    ) -> None:
        """Claim one GPU of a machine of a pool, with its share of the rest.

        dispatcher.assign_to_gpu(learner, node_pool_name="v100-pool")

        process, node_pool_name, process_group, UserError: as assign_to_machine(); or the pool has no GPUs.
        """
        pool = self._pool(node_pool_name)
        if not pool.gpus:
            raise usage_error(f"node pool {node_pool_name} has no GPUs", "Use assign_to_machine() instead")
        self._assign(process, process_group, Claim(parts=pool.gpus), pool.name)

    def assign_to_node_pool(
        self,
        process: Process,
        *,
        node_pool_name: str,
        process_group: ProcessGroup | None = None,
        cpu: float | None = None,
        memory_m: float | None = None,
        gpu_count: int | None = None,
    ) -> None:
        """Claim amounts of a machine of a pool.

        dispatcher.assign_to_node_pool(agent, node_pool_name="cpu-pool", cpu=2.5, memory_m=4096)

        process, node_pool_name, process_group, UserError: as assign_to_machine().
        cpu: cores. memory_m: MiB. gpu_count: how many. Amounts that are left out are not claimed.
        """
        claim = _claim(cpu, memory_m, gpu_count)
        self._assign(process, process_group, claim, self._pool(node_pool_name).name)

    def assign_to_resource(
        self,
        process: Process,
        *,
        node_pool_name: str | None = None,
        process_group: ProcessGroup | None = None,
        cpu: float | None = None,
        memory_m: float | None = None,
        gpu_type: str | None = None,
        gpu_count: int | None = None,
    ) -> None:
        """Claim amounts of a machine of the cheapest pool that has them, without GPUs if none are claimed.

        dispatcher.assign_to_resource(learner, cpu=4, memory_m=8192, gpu_type="v100")

        process, process_group, UserError: as assign_to_machine(). node_pool_name: only of this pool.
        cpu: cores. memory_m: MiB. gpu_type: such as "v100"; its gpu_count is 1 by default.
        """
        name = self._pool(node_pool_name).name if node_pool_name is not None else ""
        claim = _claim(cpu, memory_m, 1 if gpu_type and gpu_count is None else gpu_count)
        word = gpu_type.lower() if gpu_type else ""
        types = [pool.gpu_type for pool in self._pools.values() if word and word in pool.gpu_type]
        self._assign(process, process_group, claim, name, next(iter(types), word))

    def _pool(self, name: str) -> Pool:
        if name in self._pools:
            return self._pools[name]
        near = nearest(str(name), self._pools)
        remedy = (
            f"Did you mean {quoted(near)}?" if near else f"Use one of: {', '.join(self.get_node_pools())}"
        )
        error = usage_error(f"node pool {quoted(name)} does not exist", remedy)
        raise MissingError(error.what, where=error.where, remedy=error.remedy)

    def _assign(
        self, process: Process, group: ProcessGroup | None, claim: Claim, pool: str, gpu_type: str = ""
    ) -> None:
        pod = Pod(process.name, (claim,), pool=pool, gpu_type=gpu_type, tolerates_all=True)
        # The plan of the whole experiment limits the number of machines.
        pools = [dataclasses.replace(pool, max=None, taints=_taints(pool)) for pool in self._pools.values()]
        placement = planner.place([pod], pools, LIST_PRICES)
        if pod.name not in placement.chosen:
            raise self._misfit(pod, placement.lacking[pod.name])
        choice = placement.chosen[pod.name]
        owner = process if group is None else group
        for key, value in choice.pool.selects.items():
            owner.node_selector(key, value)
        for toleration in choice.tolerations(owner.spec.pod.tolerations):
            owner.add_toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
        (claimed,) = choice.claims
        if claimed.cpu:
            process.resource_request(cpu=f"{claimed.cpu}m")
        if claimed.memory:
            process.resource_request(memory=f"{claimed.memory // MIB}Mi")
        if claimed.gpus:
            process.resource_limit(gpu=claimed.gpus)

    def _misfit(self, pod: Pod, lacking: Mapping[str, str]) -> UserError:
        reasons = "; ".join(f"{name} {lack}" for name, lack in lacking.items())
        if pod.pool:
            what, remedy = f"{pod.name} does not fit the node pool", "Ask for less, or name another pool"
        else:
            what, remedy = f"{pod.name} fits no node pool", "Ask for less, or name the pool"
        return usage_error(f"{what}: {reasons}", remedy)

    def __repr__(self) -> str:
        return f"GKEDispatcher({', '.join(self.get_node_pools())})"


def _taints(pool: Pool) -> tuple[Taint, ...]:
    """Return the taints of a pool, with that of a GkeCluster for spot machines; a `.tf.json` lacks it."""
    spot = [Taint(SPOT_LABEL, "true")] if pool.spot else []
    return tuple(dict.fromkeys([*pool.taints, *spot]))


def _read(file: Any) -> tf_json.TfCluster:
    if not isinstance(file, (str, Mapping)) and not hasattr(file, "__fspath__"):
        raise usage_error(
            f"{file!r:.60} is not a .tf.json", "Give the path or the content of the file, or a GkeCluster"
        )
    return tf_json.read(cast("tf_json.TfJson", file))


def _claim(cpu: float | None, memory_m: float | None, gpu_count: int | None) -> Claim:
    return Claim(
        None if cpu is None else round(_amount("cpu", cpu) * 1000),
        None if memory_m is None else int(_amount("memory_m", memory_m)) * MIB,
        _integer("gpu_count", gpu_count, least=0),
    )


def _amount(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < 2**40:
        raise usage_error(f"{name}={value!r:.40} is not an amount", "Give a number of 0 or more")
    return number


def _integer(name: str, value: Any, *, least: int) -> int | None:
    if value is None:
        return None
    number = _amount(name, value)
    if number % 1 or number < least:
        raise usage_error(
            f"{name}={value!r:.40} is not a whole number", f"Give a whole number of {least} or more"
        )
    return int(number)
