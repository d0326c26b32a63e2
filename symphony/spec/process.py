"""One process as the user declared it: a frozen value that plan/ judges and backends render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symphony.spec.convert import NUMBER, QUANTITY, arguments, instance_of, manifest, texts, words
from symphony.spec.services import Services, ServiceUse, services
from symphony.spec.setting import Checked, setting
from symphony.spec.shared import Arguments, Declared, MemberOptions, MemberSettings

# Cores of cpu, bytes of memory; as text with the suffixes of Kubernetes.
Quantity = str | float


@dataclass(frozen=True)
class Resources(Checked):
    """The resources of a container.

    Args:
        cpu: Cores, such as 2, 0.5 or "500m".
        memory: Bytes, such as 8e9 or "8Gi".
        gpu: The number of GPUs.

    Example:
        experiment.new_process("learner", image="rl:1", resources=Resources(cpu=2, memory="8Gi", gpu=1))
    """

    cpu: Quantity | None = setting(QUANTITY)
    memory: Quantity | None = setting(QUANTITY)
    gpu: int | None = setting(NUMBER)


class ProcessOptions(MemberOptions, total=False):
    """Keywords of a process."""

    command: Arguments | None
    args: Arguments | None
    binds: Services | None
    connects: Services | None
    exposes: Services | None
    resources: Resources | None
    limits: Resources | None
    container_yml: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(MemberSettings):
    """The program that runs and the resources it claims: command and args run without a shell, cmds are shell
    lines.
    """

    command: tuple[str, ...] | None = setting(words, keyword=True, varies=True)
    args: tuple[str, ...] = setting(arguments, (), keyword=True, varies=True)
    cmds: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    resource_request: Resources = setting(
        instance_of(Resources), Resources(), calls=("resource_request",), varies=True, part=Resources
    )
    resource_limit: Resources = setting(
        instance_of(Resources), Resources(), calls=("resource_limit",), varies=True, part=Resources
    )
    container_yml: Mapping[str, Any] = setting(manifest, {}, varies=True)


@dataclass(frozen=True)
class ProcessSpec(ProcessSettings, Declared):
    """A program with its settings for every backend."""

    binds: tuple[ServiceUse, ...] = setting(services, (), keyword=True, calls=("binds",), part=ServiceUse)
    connects: tuple[ServiceUse, ...] = setting(
        services, (), keyword=True, calls=("connects",), part=ServiceUse
    )
    exposes: tuple[ServiceUse, ...] = setting(services, (), keyword=True, calls=("exposes",), part=ServiceUse)
