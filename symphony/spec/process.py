"""One process as the user declared it: a frozen value that plan/ judges and backends render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symphony.spec import setting, types
from symphony.spec.services import ServiceUse
from symphony.spec.shared import Declared, MemberSettings, SharedOptions, Texts

# Of cpu in cores, of memory in bytes; as text with the suffixes of Kubernetes.
Quantity = str | float


class ProcessOptions(SharedOptions, total=False):
    """Keywords of a process."""

    command: Texts | None
    args: Texts | None


@dataclass(frozen=True)
class Resources:
    """What a container claims; quantities as Kubernetes writes them, gpu as a count."""

    cpu: Quantity | None = setting.setting(types.QUANTITY)
    memory: Quantity | None = setting.setting(types.QUANTITY)
    gpu: int | None = setting.setting(types.WHOLE_NUMBER)


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(MemberSettings):
    """What runs, and what it claims: command and args are run without a shell; cmds are shell lines."""

    command: tuple[str, ...] | None = setting.setting(
        types.COMMAND, keyword=True, varies=True, stand_in=("/bin/sh",)
    )
    args: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True)
    cmds: tuple[str, ...] = setting.setting(types.TEXTS, keyword=True, varies=True, stand_in=("?",))
    resource_request: Resources = setting.setting(
        types.part(Resources), calls=("resource_request",), varies=True
    )
    resource_limit: Resources = setting.setting(types.part(Resources), calls=("resource_limit",), varies=True)
    container_yml: Mapping[str, Any] = setting.setting(types.MANIFEST, varies=True)


@dataclass(frozen=True)
class ProcessSpec(ProcessSettings, Declared):
    """A program with its settings for every backend."""

    binds: tuple[ServiceUse, ...] = setting.setting(types.parts(ServiceUse), calls=("binds",))
    connects: tuple[ServiceUse, ...] = setting.setting(types.parts(ServiceUse), calls=("connects",))
    exposes: tuple[ServiceUse, ...] = setting.setting(types.parts(ServiceUse), calls=("exposes",))
