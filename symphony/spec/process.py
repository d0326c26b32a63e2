"""A process as the user declared it: a frozen value that `plan` checks and backends render."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict, cast

from msgspec import Meta

from symphony.errors import UserError
from symphony.spec.location import NOWHERE, Location, caller
from symphony.spec.setting import (
    GPUS,
    OPTIONAL_TEXT,
    PORT,
    Checked,
    arguments,
    instance_of,
    manifest,
    of_type,
    optional,
    quantity,
    required,
    setting,
    strict_text,
    texts,
    words,
    wrong_type,
)
from symphony.spec.shared import Arguments, Declared, MemberOptions, MemberSettings

HANDLERS = ("tcp", "http", "exec", "log")
# The name of a service, or a port number.
Port = str | int
_Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Delay = Annotated[int, Meta(ge=0, le=2**31 - 1)]


def _pattern(value: Any, setting: str) -> str | None:
    pattern = OPTIONAL_TEXT(value, setting)
    try:
        re.compile(pattern or "")
    except re.error as error:
        remedy = 'Write it as re.search takes it, such as "Listening on .*"'
        raise UserError(
            f"{setting} is not a valid regular expression: {error}", where=str(caller()), remedy=remedy
        ) from None
    return pattern


class ProbeOptions(TypedDict, total=False):
    """Keywords of a probe."""

    tcp: Port | None
    http: str | None
    exec: str | Sequence[str] | None
    log: str | None
    port: Port | None
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    initial_delay_seconds: int


@dataclass(frozen=True)
class Probe(Checked):
    r"""A check that is repeated on a process, by exactly one of tcp, http, exec and log.

    Args:
        tcp: A service that the process binds, or a port: the check succeeds if it accepts a connection.
        http: A path, such as "/health": a GET succeeds with a status from 200 to 399.
        exec: A command that runs beside the process, without a shell, and succeeds with exit code 0.
        log: A regular expression that a line of the output must match; for readiness only.
        port: The service or port for http; needed unless the process binds exactly one service.
        period_seconds: The time between two checks.
        timeout_seconds: The time after which a check has failed.
        failure_threshold: How many checks in a row must fail before the process is unready, or restarts.
        initial_delay_seconds: The time from the start of the process to the first check.

    Raises:
        UserError: A value has a wrong type, or not exactly one of tcp, http, exec and log is set.

    Example:
        experiment.new_process("web", command="python web.py", binds="web", readiness_probe=Probe(http="/"))
    """

    tcp: Port | None = setting(of_type(str | _Count | None))
    http: str | None = setting(OPTIONAL_TEXT)
    exec: tuple[str, ...] | None = setting(optional(words))
    log: str | None = setting(_pattern)
    port: Port | None = setting(of_type(str | _Count | None))
    period_seconds: int = setting(of_type(_Count), 2)
    timeout_seconds: int = setting(of_type(_Count), 2)
    failure_threshold: int = setting(of_type(_Count), 3)
    initial_delay_seconds: int = setting(of_type(_Delay), 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        handlers = [name for name in HANDLERS if getattr(self, name) not in (None, ())]
        if len(handlers) != 1:
            what = f"a probe has {' and '.join(handlers) or 'nothing to check'}"
            remedy = f"Set exactly one of {', '.join(HANDLERS)}"
            raise UserError(what, where=str(caller()), remedy=remedy)
        if self.port is not None and self.http is None:
            what = f"a probe with {handlers[0]}= also has port="
            raise UserError(
                what,
                where=str(caller()),
                remedy="Use port= only with http=; tcp= takes the port itself: tcp=6006",
            )

    @property
    def handler(self) -> str:
        """The kind of check: tcp, http, exec or log."""
        return next(name for name in HANDLERS if getattr(self, name) not in (None, ()))

    def __str__(self) -> str:
        value = getattr(self, self.handler)
        check = " ".join(value) if self.handler == "exec" else value
        return f"{self.handler} {check}{f' at {self.port}' if self.port is not None else ''}"


# A name, names, or names with their ports.
Services = str | Sequence[str | Mapping[str, int | None]] | Mapping[str, int | None]


@dataclass(frozen=True)
class ServiceUse(Checked):
    """A service that a process binds, connects to or exposes; if port is None, the backend chooses one."""

    name: str = required(strict_text)
    port: int | None = setting(of_type(PORT | None))
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
    """The resources of a process.

    Args:
        cpu: Cores, such as 2, 0.5 or "500m".
        memory: Bytes, such as 8e9 or "8Gi".
        gpu: The number of GPUs.

    Example:
        experiment.new_process("learner", image="rl:1", resources=Resources(cpu=2, memory="8Gi", gpu=1))
    """

    cpu: Quantity | None = setting(quantity)
    memory: Quantity | None = setting(quantity)
    gpu: int | None = setting(GPUS)


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
