"""A process as the user declared it: a frozen value that `plan` checks and backends render."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from symphony.spec.location import NOWHERE, Location, caller
from symphony.spec.probe import Probe
from symphony.spec.setting import (
    NUMBER,
    QUANTITY,
    Checked,
    arguments,
    instance_of,
    manifest,
    of_type,
    optional,
    required,
    setting,
    strict_text,
    texts,
    words,
    wrong_type,
)
from symphony.spec.shared import Arguments, Declared, MemberOptions, MemberSettings

# A name, names, or names with their ports.
Services = str | Sequence[str | Mapping[str, int | None]] | Mapping[str, int | None]


@dataclass(frozen=True)
class ServiceUse(Checked):
    """A service that a process binds, connects to or exposes; port None lets the plan choose."""

    name: str = required(strict_text)
    port: int | None = setting(NUMBER)
    where: Location = field(default=NOWHERE, compare=False)


def services(value: Any, setting: str) -> tuple[ServiceUse, ...]:
    """Return the services in a name, a list of names, a mapping of names to ports, or nested lists of these.

    >>> [(use.name, use.port) for use in services(("a", ["b"], {"c": 6006}), "binds")]
    [('a', None), ('b', None), ('c', 6006)]
    """
    return tuple(_service_uses(value, setting, caller()))


def _service_uses(value: Any, setting: str, where: Location) -> Iterator[ServiceUse]:
    if isinstance(value, ServiceUse):
        yield value
    elif isinstance(value, str):
        yield ServiceUse(value, None, where)
    elif isinstance(value, Mapping):
        for name, port in cast("Mapping[Any, Any]", value).items():
            yield ServiceUse(name, port, where)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _service_uses(item, setting, where)
    elif isinstance(value, (set, frozenset)):
        for name in sorted(cast("set[Any]", value), key=str):
            yield from _service_uses(name, setting, where)
    else:
        raise wrong_type(setting, value, "service names, lists of them, or {name: port}")


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


_PROBE = optional(instance_of(Probe))


@dataclass(frozen=True)
class Rendezvous(Checked):
    """The rank of a process among equal workers, from 0, and the service that rank 0 binds for them."""

    rank: int = required(of_type(int))
    size: int = required(of_type(int))
    service: str = required(strict_text)


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
    readiness_probe: Probe | None
    liveness_probe: Probe | None


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(MemberSettings):
    """The program and its resources; command and args run without a shell, cmds are shell lines."""

    command: tuple[str, ...] | None = setting(words, keyword=True, varies=True)
    args: tuple[str, ...] = setting(arguments, (), keyword=True, varies=True)
    cmds: tuple[str, ...] = setting(texts, (), keyword=True, varies=True)
    resource_request: Resources = setting(instance_of(Resources), Resources(), varies=True, part=Resources)
    resource_limit: Resources = setting(instance_of(Resources), Resources(), varies=True, part=Resources)
    container_yml: Mapping[str, Any] = setting(manifest, {}, varies=True)
    readiness_probe: Probe | None = setting(_PROBE, keyword=True, varies=True, part=Probe)
    liveness_probe: Probe | None = setting(_PROBE, keyword=True, varies=True, part=Probe)


@dataclass(frozen=True)
class ProcessSpec(ProcessSettings, Declared):
    """A program with its settings for every backend."""

    binds: tuple[ServiceUse, ...] = setting(services, (), keyword=True, part=ServiceUse)
    connects: tuple[ServiceUse, ...] = setting(services, (), keyword=True, part=ServiceUse)
    exposes: tuple[ServiceUse, ...] = setting(services, (), keyword=True, part=ServiceUse)
    rendezvous: Rendezvous | None = setting(of_type(Rendezvous | None), part=Rendezvous)
