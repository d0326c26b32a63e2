"""Settings of a pod: they belong to a process in no group, or else to its group; the plan enforces which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from symphony.spec.convert import (
    NUMBER,
    OPTIONAL_TEXT,
    QUANTITY,
    all_of,
    instance_of,
    manifest,
    of_type,
    variables,
)
from symphony.spec.setting import Checked, setting

RestartPolicy = Literal["Always", "OnFailure", "Never"]
Operator = Literal["Exists", "Equal"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True)
class Toleration(Checked):
    """A taint of nodes that a pod may run on.

    Args:
        key: The key of the taint; any by default.
        operator: "Equal" (by default) compares key and value, "Exists" only the key.
        value: The value of the taint.
        effect: "NoSchedule", "PreferNoSchedule" or "NoExecute"; any by default.
        toleration_seconds: For how many seconds after the taint comes (NoExecute); for ever by default.

    Example:
        Toleration(key="gpu", operator="Exists", effect="NoSchedule")
    """

    key: str | None = setting(OPTIONAL_TEXT)
    operator: Operator | None = setting(of_type(Operator | None))
    value: str | None = setting(OPTIONAL_TEXT)
    effect: Effect | None = setting(of_type(Effect | None))
    toleration_seconds: int | None = setting(NUMBER)


@dataclass(frozen=True)
class Place(Checked):
    """The machines that a process runs on.

    Args:
        pool: The node pool; by default the cheapest whose machines offer the rest.
        per_machine: A share of a machine, so that this many processes fit on one and no more.
        cpu: Cores, such as 2, 0.5 or "500m".
        memory: Bytes, such as 8e9 or "8Gi".
        gpu: The number of GPUs.
        gpu_type: The type of the GPUs.
        spot: Whether the cloud may take the machines away.

    Example:
        experiment.new_process("learner", image="rl:1", place=Place(gpu=1, gpu_type="v100"))
    """

    pool: str | None = setting(OPTIONAL_TEXT)
    per_machine: int | None = setting(NUMBER)
    cpu: str | float | None = setting(QUANTITY)
    memory: str | float | None = setting(QUANTITY)
    gpu: int | None = setting(NUMBER)
    gpu_type: str | None = setting(OPTIONAL_TEXT)
    spot: bool | None = setting(of_type(bool | None))


@dataclass(frozen=True)
class PodSettings:
    """The nodes on which a pod may run, what happens when it ends, and its labels."""

    node_selector: Mapping[str, str] = setting(
        variables, {}, keyword=True, calls=("node_selector",), varies=True
    )
    tolerations: tuple[Toleration, ...] = setting(
        all_of(instance_of(Toleration)),
        (),
        keyword=True,
        calls=("add_toleration",),
        varies=True,
        part=Toleration,
    )
    restart_policy: RestartPolicy | None = setting(
        of_type(RestartPolicy | None), keyword=True, calls=("restart_policy",), varies=True
    )
    labels: Mapping[str, str] = setting(
        variables, {}, keyword=True, calls=("add_label", "add_labels"), varies=True
    )
    pod_yml: Mapping[str, Any] = setting(manifest, {}, varies=True)
