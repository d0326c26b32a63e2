"""Reads the outputs of a cluster's stack: the kubeconfig, the registry and the pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

# As pulumi.runtime.invoke waits.
from pulumi.runtime.sync_await import _sync_await  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]

from symphony.backends.kubernetes.api.fields import mapping
from symphony.errors import UserError
from symphony.placement.pool import Pool

_KEY = "symphony:cluster"
_CACHE = "_symphony_clusters"


@dataclass(frozen=True)
class ClusterStack:
    """The outputs of a stack with a GkeCluster; name: organization/project/stack."""

    name: str
    kubeconfig: str
    registry: str
    pools: tuple[Pool, ...]


def read(reference: str, project: str) -> ClusterStack:
    """Return the cluster of a stack, `gke` of the same project or `project/gke`.

    Raises:
        UserError: The stack has no cluster, or is not up yet.
    """
    # Cached for the run of the program.
    root: Any = pulumi.runtime.get_root_resource()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    clusters: dict[str, ClusterStack] = root.__dict__.setdefault(_CACHE, {})
    name = _full_name(reference, project)
    if name not in clusters:
        clusters[name] = _cluster(name, _outputs(name), reference)
    return clusters[name]


def find(reference: str, project: str) -> ClusterStack | None:
    """Return the cluster of a stack; None if that stack does not exist or is not up."""
    name = _full_name(reference, project)
    try:
        # Not a StackReference, which would end the run if the stack does not exist.
        answer: Any = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name})  # pyright: ignore[reportUnknownMemberType]
    except Exception:
        return None
    outputs = mapping(answer.value, "outputs")
    return _cluster(name, outputs, reference) if outputs else None


def _full_name(reference: str, project: str) -> str:
    *parents, stack = reference.split("/")
    organization = parents[0] if len(parents) > 1 else pulumi.get_organization()
    return f"{organization}/{parents[-1] if parents else project}/{stack}"


def _outputs(name: str) -> Mapping[str, Any]:
    """Return the outputs of a stack as plain values, since a plan cannot contain Outputs.

    The StackReference is recorded in the state, so that `delete` of the cluster's stack knows that it is in
    use. If the stack does not exist, the engine ends the program.
    """
    reference = pulumi.StackReference(name)
    return _sync_await(reference.outputs.future()) or {}


def _cluster(name: str, outputs: Mapping[str, Any], reference: str) -> ClusterStack:
    if not outputs:
        stack = name.rpartition("/")[2]
        remedy = f"Run `symphony up {stack}` first"
        raise UserError(f"the cluster's stack {stack} has no outputs yet", where=_KEY, remedy=remedy)
    try:
        pools = tuple(map(Pool.from_json, outputs["pools"]))
        return ClusterStack(name, str(outputs["kubeconfig"]), str(outputs.get("registry") or ""), pools)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"the stack {reference} has no cluster among its outputs",
            where=_KEY,
            remedy="Name the stack whose program declares a GkeCluster",
        ) from error
