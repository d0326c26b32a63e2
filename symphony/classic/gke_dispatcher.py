"""GKEDispatcher of the original Symphony: assigns processes to the node pools of a GKE cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from symphony.components.usage_errors import usage_error
from symphony.errors import UserError
from symphony.placement import planner, tf_json
from symphony.placement.machines import MIB, gpu_type_of
from symphony.placement.planner import Claim, Pod
from symphony.placement.pool import SPOT_LABEL, Pool, Taint
from symphony.placement.tf_json import MissingError
from symphony.plan.names import nearest, quoted

if TYPE_CHECKING:
    from symphony.components.process import Process
    from symphony.components.process_group import ProcessGroup


class GKEDispatcher:
    """Assigns processes to node pools: sets their node selector, tolerations and resources.

    If a process is in a group, pass process_group=: the node selector and the tolerations are set on the
    group, the resources on the process.

    Args:
        tf_json: The path or the content of the Terraform file that cloudwise wrote.

    Raises:
        UserError: The file is not valid.

    Example:
        dispatcher = GKEDispatcher("cluster.tf.json")
        dispatcher.assign_to_gpu(learner, node_pool_name="v100-pool")
    """

    def __init__(self, tf_json: tf_json.TfJson) -> None:
        """Read the node pools."""
        read = _read(tf_json)
        self._pools = {pool.name: pool for pool in read.pools}
        self._entries = read.entries

    def get_node_pools(self) -> list[str]:
        """Return the names of the node pools, sorted."""
        return sorted(self._pools)

    def get_node_pool(self, name: str) -> Mapping[str, Any]:
        """Return the content of the file for a node pool.

        Args:
            name: The name of the pool.

        Raises:
            KeyError: The pool does not exist; the error is a UserError too.

        Example:
            dispatcher.get_node_pool("v100-pool")
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
        """Call assign_to_machine, assign_to_gpu, assign_to_node_pool or assign_to_resource.

        Args:
            process: The process, as new_process() returned it.
            assign_to: The end of the method's name.
            settings: The keywords of the method; those that are None are omitted.

        Raises:
            UserError: The method raises it, or does not take these keywords.

        Example:
            dispatcher.assign_to(learner, assign_to="gpu", node_pool_name="v100-pool")
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
        """Request an equal share of a machine of a pool.

        Args:
            process: The process, as new_process() returned it.
            node_pool_name: A name of get_node_pools().
            process_group: The group of the process, if it is in one.
            process_per_machine: The number of such processes that share a machine.

        Raises:
            UserError: The pool does not exist, or its machines are too small.

        Example:
            dispatcher.assign_to_machine(agent, node_pool_name="cpu-pool", process_per_machine=4)
        """
        parts = _integer("process_per_machine", process_per_machine, least=1)
        self._assign(process, process_group, Claim(parts=parts or 1), self._pool(node_pool_name).name)

    def assign_to_gpu(
        self, process: Process, *, node_pool_name: str, process_group: ProcessGroup | None = None
    ) -> None:
        """Request one GPU of a machine of a pool, and an equal share of its CPU and memory.

        Args:
            process: The process, as new_process() returned it.
            node_pool_name: A name of get_node_pools().
            process_group: The group of the process, if it is in one.

        Raises:
            UserError: The pool does not exist, or has no GPUs.

        Example:
            dispatcher.assign_to_gpu(learner, node_pool_name="v100-pool")
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
        """Request amounts of CPU, memory and GPUs on a machine of a pool.

        Args:
            process: The process, as new_process() returned it.
            node_pool_name: A name of get_node_pools().
            process_group: The group of the process, if it is in one.
            cpu: The number of cores; None requests none.
            memory_m: The memory in MiB; None requests none.
            gpu_count: The number of GPUs; None requests none.

        Raises:
            UserError: The pool does not exist, or its machines are too small.

        Example:
            dispatcher.assign_to_node_pool(agent, node_pool_name="cpu-pool", cpu=2.5, memory_m=4096)
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
        """Request amounts of CPU, memory and GPUs in the cheapest pool that has them.

        A pool with GPUs is only considered if the process requests GPUs or node_pool_name names the pool; a
        spot pool, only if node_pool_name names it.

        Args:
            process: The process, as new_process() returned it.
            node_pool_name: The only pool to consider; by default all.
            process_group: The group of the process, if it is in one.
            cpu: The number of cores; None requests none.
            memory_m: The memory in MiB; None requests none.
            gpu_type: The type of GPU, such as "v100".
            gpu_count: The number of GPUs; 1 by default if gpu_type is set.

        Raises:
            UserError: No pool has such machines.

        Example:
            dispatcher.assign_to_resource(learner, cpu=4, memory_m=8192, gpu_type="v100")
        """
        name = self._pool(node_pool_name).name if node_pool_name is not None else ""
        claim = _claim(cpu, memory_m, 1 if gpu_type and gpu_count is None else gpu_count)
        word = gpu_type.lower() if gpu_type else ""
        types = [pool.gpu_type for pool in self._pools.values() if word and word in pool.gpu_type]
        # `a100` is nvidia-tesla-a100, although nvidia-a100-80gb contains it.
        exact = gpu_type_of(word)
        wanted = exact if exact in types else next(iter(types), word)
        self._assign(process, process_group, claim, name, wanted)

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
        placement = planner.place([pod], pools)
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
    """Return the taints of a pool; a `.tf.json` lacks the one of spot pools."""
    spot = [Taint(SPOT_LABEL, "true")] if pool.spot else []
    return tuple(dict.fromkeys([*pool.taints, *spot]))


def _read(file: Any) -> tf_json.TfPools:
    if not isinstance(file, (str, Mapping)) and not hasattr(file, "__fspath__"):
        raise usage_error(f"{file!r:.60} is not a .tf.json", "Give the path or the content of the file")
    return tf_json.read_pools(cast("tf_json.TfJson", file))


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
