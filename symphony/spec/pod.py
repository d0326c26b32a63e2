"""Settings of a pod: they belong to a process in no group, or else to its group; plan enforces which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from symphony.spec import setting, types

RestartPolicy = Literal["Always", "OnFailure", "Never"]
Operator = Literal["Exists", "Equal"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True)
class Toleration:
    """A taint the pod may be placed on; Kubernetes' own fields."""

    key: str | None = setting.setting(types.OPTIONAL_TEXT)
    operator: Operator | None = setting.setting(types.one_of(Operator))
    value: str | None = setting.setting(types.OPTIONAL_TEXT)
    effect: Effect | None = setting.setting(types.one_of(Effect))
    tolerationSeconds: int | None = setting.setting(types.WHOLE_NUMBER)


@dataclass(frozen=True)
class Place:
    """On which machines: a pool, or what they must offer; quantities as Kubernetes writes them."""

    pool: str | None = setting.setting(types.OPTIONAL_TEXT)
    per_machine: int | None = setting.setting(types.WHOLE_NUMBER)
    cpu: str | float | None = setting.setting(types.QUANTITY)
    memory: str | float | None = setting.setting(types.QUANTITY)
    gpu: int | None = setting.setting(types.WHOLE_NUMBER)
    gpu_type: str | None = setting.setting(types.OPTIONAL_TEXT)
    spot: bool | None = setting.setting(types.OPTIONAL_FLAG)


@dataclass(frozen=True)
class PodSettings:
    """Where a pod may run, what happens when it ends, and its labels."""

    node_selector: Mapping[str, str] = setting.setting(types.VARIABLES, calls=("node_selector",), varies=True)
    tolerations: tuple[Toleration, ...] = setting.setting(
        types.parts(Toleration), calls=("add_toleration",), varies=True
    )
    restart_policy: RestartPolicy | None = setting.setting(
        types.one_of(RestartPolicy), calls=("restart_policy",), varies=True
    )
    labels: Mapping[str, str] = setting.setting(
        types.VARIABLES, calls=("add_label", "add_labels"), varies=True
    )
    pod_yml: Mapping[str, Any] = setting.setting(types.MANIFEST, varies=True)
